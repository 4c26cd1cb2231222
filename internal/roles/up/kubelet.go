package up

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/cluster/kubelet"
	clusterprocess "github.com/purser-csi/purser/internal/cluster/process"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/process"
)

// SandboxImage is this program as an image. It holds the namespaces of each pod, and containers may
// use it. It waits for SIGTERM.
const SandboxImage = "purser.local/pause:1"

const pause = "pause"

// PauseCommand returns the command that a container of SandboxImage runs.
func PauseCommand() *cobra.Command {
	return &cobra.Command{
		Use: pause, Hidden: true, Args: cobra.NoArgs,
		Short: "Wait until told to end, as the first process of a container",
		RunE:  func(c *cobra.Command, _ []string) error { <-c.Context().Done(); return nil },
	}
}

func (h *upRun) kubeletRoot() string { return filepath.Join(h.dir, "kubelet") }

func (h *upRun) runtimeDir() string { return filepath.Join(h.dir, "containerd") }

// findKubelet finds the programs. Its error says in one line why no kubelet can run on this
// machine.
func (h *upRun) findKubelet() (err error) {
	if h.WithKubelet {
		if h.kubelet, err = kubelet.FindPrograms(programDirs()...); err != nil {
			return fmt.Errorf("--kubelet: %w", err)
		}
	}
	return nil
}

// startKubelet starts containerd, a kubelet and the registration of the driver with it, in place of
// the node agent.
func (h *upRun) startKubelet(ctx context.Context, endpoint string) error {
	began := time.Now()
	socket, err := csirpc.SocketPath(endpoint)
	if err != nil {
		return fmt.Errorf("--csi-address: %w", err)
	}
	server, err := driver.NewRegistration(driver.Config{
		Dir: filepath.Join(h.kubeletRoot(), "plugins_registry"), Name: h.driver.Name, Socket: socket,
	})
	if err != nil {
		return fmt.Errorf("--kubelet: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(server.Path()), 0o750); err != nil {
		return fmt.Errorf("--kubelet: %w", err)
	}
	h.waiting("kubelet and containerd")
	runtime, err := h.startRuntime(ctx)
	if err != nil {
		return err
	}
	child, err := kubelet.Start(kubelet.Config{
		Dir: filepath.Join(h.dir, "kubelet-config"), Root: h.kubeletRoot(), LogDir: filepath.Dir(h.logFile()),
		Binaries:   h.kubelet,
		Kubeconfig: h.cluster.Kubeconfig(), NodeName: h.NodeName, Runtime: runtime.Socket(),
		Sync: kubeletSync,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("--kubelet: %w", err), runtime.Stop(context.WithoutCancel(ctx)))
	}
	part := process.StartPart(
		ctx, "kubelet", func(ctx context.Context) error { return runKubelet(ctx, runtime, child) },
	)
	h.parts = append(h.parts, part, process.StartPart(ctx, "registration of the driver", server.Run))
	for server.Check() != nil {
		select {
		case <-part.Ended:
			return part.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	h.screen.step("kubelet and containerd", time.Since(began))
	h.screen.say(
		"  images are those of this machine alone: ctr --address %s --namespace k8s.io images import FILE",
		runtime.Socket(),
	)
	h.screen.say(
		"  unless the machine has network plugins in /opt/cni/bin and /etc/cni/net.d, pods need hostNetwork: true, " +
			"and the",
	)
	h.screen.say("  node stays NotReady; pods are scheduled to it all the same")
	return nil
}

// startRuntime starts containerd with the image of this program.
func (h *upRun) startRuntime(ctx context.Context) (*kubelet.Runtime, error) {
	runtime, err := kubelet.StartRuntime(ctx, kubelet.RuntimeConfig{
		Dir: h.runtimeDir(), LogDir: filepath.Dir(h.logFile()), Binaries: h.kubelet, Sandbox: SandboxImage,
	})
	if err != nil {
		return nil, fmt.Errorf("--kubelet: %w", err)
	}
	program, err := ownProgram()
	if err == nil {
		var archive []byte
		if archive, err = kubelet.Image(SandboxImage, program, pause); err == nil {
			err = runtime.Import(ctx, archive)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--kubelet: %w", err), runtime.Stop(context.WithoutCancel(ctx)))
	}
	return runtime, nil
}

// ownProgram returns this program, which must be static: its image has no libraries.
func ownProgram() ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		return nil, errors.Join(err, fmt.Errorf(
			"%s needs the libraries %v; use one that is built with CGO_ENABLED=0, as `make build` does", path,
			libraries,
		))
	}
	return os.ReadFile(path)
}

// kubeletSync is how often the kubelet syncs each pod. It expands the volume of a running pod only
// in a sync.
const kubeletSync = 10 * time.Second

// kubeletStop bounds the end of the kubelet, of the containers and of containerd.
const kubeletStop = 20 * time.Second

// runKubelet waits until ctx ends or one of the two programs has ended, stops both with all
// containers, and returns.
func runKubelet(ctx context.Context, runtime *kubelet.Runtime, child *clusterprocess.Process) (err error) {
	select {
	case <-ctx.Done():
	case <-child.Done():
		err = child.Exit()
	case <-runtime.Done():
		err = runtime.Exit()
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), kubeletStop)
	defer cancel()
	return errors.Join(err, child.Stop(stopping), runtime.Stop(stopping))
}

// endContainers ends containers of an `up` that was killed.
func (h *upRun) endContainers(ctx context.Context) error {
	if !kubelet.HasContainers(h.runtimeDir()) {
		return nil
	}
	binaries, err := kubelet.FindPrograms(programDirs()...)
	if err != nil {
		return fmt.Errorf("containers of an earlier 'purser up --kubelet' may run: %w", err)
	}
	logs := filepath.Dir(h.logFile())
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return fmt.Errorf("logs: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kubeletStop)
	defer cancel()
	runtime, err := kubelet.StartRuntime(ctx, kubelet.RuntimeConfig{
		Dir: h.runtimeDir(), LogDir: logs, Binaries: binaries, Sandbox: SandboxImage,
	})
	if err != nil {
		return fmt.Errorf("end the containers of an earlier 'purser up --kubelet': %w", err)
	}
	return runtime.Stop(ctx)
}
