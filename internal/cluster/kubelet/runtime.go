package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/cluster/process"
)

// RuntimeConfig says where containerd keeps its state.
type RuntimeConfig struct {
	Dir      string // absolute, and short: it has sockets
	LogDir   string
	Binaries cluster.Binaries // of FindPrograms
	Sandbox  string           // name of the image that holds the namespaces of each pod
	Networks string           // folder with the configurations of network plugins; "" for that of the machine
}

// Runtime is a containerd of its own, beside any other of the machine.
type Runtime struct {
	cfg     RuntimeConfig
	process *process.Process
}

// namespace is where a kubelet's containers and images are in containerd.
const namespace = "k8s.io"

// socketName is the file of containerd's socket. It is short, since a socket's path is.
const socketName = "c.sock"

// StartRuntime starts containerd and returns when it answers.
func StartRuntime(ctx context.Context, cfg RuntimeConfig) (*Runtime, error) {
	r := &Runtime{cfg: cfg}
	config := fmt.Sprintf(`version = 2
root = %[1]q
state = %[2]q
[grpc]
  address = %[3]q
[ttrpc]
  address = %[4]q
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = %[5]q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
%[6]s`, filepath.Join(cfg.Dir, "root"), filepath.Join(cfg.Dir, "state"), r.Socket(), r.Socket()+".ttrpc", cfg.Sandbox,
		networks(cfg.Networks))
	path := filepath.Join(cfg.Dir, "config.toml")
	if err := write(path, []byte(config)); err != nil {
		return nil, err
	}
	var err error
	if r.process, err = process.Start(process.Config{
		Name: programContainerd, Path: cfg.Binaries[programContainerd], Args: []string{"--config", path},
		Log: filepath.Join(cfg.LogDir, programContainerd+".log"),
	}); err != nil {
		return nil, err
	}
	for r.client(ctx, "version") != nil {
		select {
		case <-r.process.Done():
			return nil, r.process.Exit()
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), r.Stop(context.WithoutCancel(ctx)))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return r, nil
}

// networks returns the part of the configuration that names the folder of networks.
func networks(dir string) string {
	if dir == "" {
		return ""
	}
	return fmt.Sprintf("  [plugins.\"io.containerd.grpc.v1.cri\".cni]\n    conf_dir = %q\n", dir)
}

// Socket returns the path of containerd's socket.
func (r *Runtime) Socket() string { return filepath.Join(r.cfg.Dir, socketName) }

// Done is closed when containerd has ended.
func (r *Runtime) Done() <-chan struct{} { return r.process.Done() }

// Exit says how containerd ended, and is nil while it runs.
func (r *Runtime) Exit() *process.Exit { return r.process.Exit() }

// Import imports the images of an archive.
func (r *Runtime) Import(ctx context.Context, archive []byte) error {
	path := filepath.Join(r.cfg.Dir, "image.tar")
	if err := write(path, archive); err != nil {
		return err
	}
	return errors.Join(r.client(ctx, "images", "import", path), os.Remove(path))
}

// Stop ends all containers, which would outlive containerd, and containerd.
func (r *Runtime) Stop(ctx context.Context) error {
	return errors.Join(r.removeContainers(ctx), r.process.Stop(ctx))
}

func (r *Runtime) removeContainers(ctx context.Context) error {
	var errs []error
	for _, kind := range []string{"tasks", "containers"} {
		ids, err := r.command(ctx, kind, "ls", "-q").Output()
		errs = append(errs, err)
		for id := range strings.FieldsSeq(string(ids)) {
			args := []string{kind, "rm", id}
			if kind == "tasks" {
				args = []string{kind, "rm", "-f", id}
			}
			if err := r.client(ctx, args...); err != nil && !strings.Contains(err.Error(), "not found") {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// client runs containerd's own client.
func (r *Runtime) client(ctx context.Context, args ...string) error {
	if out, err := r.command(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (r *Runtime) command(ctx context.Context, args ...string) *exec.Cmd {
	all := append([]string{"--address", r.Socket(), "--namespace", namespace}, args...)
	return exec.CommandContext(ctx, r.cfg.Binaries[programClient], all...) //nolint:gosec // the program that was found
}

// HasContainers reports whether containers of an earlier containerd with this folder may still run.
func HasContainers(dir string) bool {
	left, err := filepath.Glob(filepath.Join(dir, "state", "io.containerd.runtime.v2.task", namespace, "*"))
	return err == nil && len(left) > 0
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
