package stage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
)

// Config says what to run.
type Config struct {
	Bin     string    // folder with purser and the programs it starts
	DataDir string    // for --data-dir
	Args    []string  // further flags of `up`
	Echo    io.Writer // gets what it prints; nil for nobody
}

// Stage is an `up` that is ready.
type Stage struct {
	Config
	Client client.WithWatch
	Admin  *rest.Config
	Driver *csirpc.Conn

	command *exec.Cmd
	output  *transcript
	ended   chan struct{}
	failed  error
}

// readyTime bounds the start; a cold machine with two busy cores needs a part of it.
const readyTime = 2 * time.Minute

// Start runs `up` and returns when it says that it is ready.
func Start(ctx context.Context, cfg Config) (*Stage, error) {
	s := &Stage{Config: cfg, output: newTranscript(cfg.Echo), ended: make(chan struct{})}
	s.command = exec.Command(filepath.Join(cfg.Bin, "purser"), append([]string{"up", "--data-dir", cfg.DataDir}, cfg.Args...)...)
	s.command.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+cfg.Bin)
	s.command.Stdout, s.command.Stderr = s.output, s.output
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go s.attend(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.command.Path, err)
	}
	bound, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	select {
	case <-s.output.ready:
	case <-s.ended:
		return nil, fmt.Errorf("purser up ended before it was ready: %w\n%s", s.failed, s.output)
	case <-bound.Done():
		s.Kill()
		return nil, fmt.Errorf("purser up is not ready: %w\n%s", bound.Err(), s.output)
	}
	if err := s.connect(); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// attend starts and awaits the child on a thread of its own: the kernel sends the parent-death signal when the thread ends that
// started the child, not when the process does.
func (s *Stage) attend(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.command.Start()
	started <- err
	if err == nil {
		s.failed = s.command.Wait()
	}
	close(s.ended)
}

func (s *Stage) connect() error {
	admin, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	admin.QPS = -1
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), storagev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
		return err
	}
	s.Admin = admin
	if s.Client, err = client.NewWithWatch(admin, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("api server: %w", err)
	}
	s.Driver, err = csirpc.Dial(csirpc.Config{Endpoint: filepath.Join(s.DataDir, "csi.sock"), Timeout: 10 * time.Second})
	return err
}

// Kubeconfig is the path of the administrator's.
func (s *Stage) Kubeconfig() string { return filepath.Join(s.DataDir, "kubeconfig") }

// VolumesDir is where the built-in driver keeps its volumes.
func (s *Stage) VolumesDir() string { return filepath.Join(s.DataDir, "driver", "volumes") }

// Kubectl runs kubectl as the administrator.
func (s *Stage) Kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(s.Bin, "kubectl"), append([]string{"--kubeconfig", s.Kubeconfig()}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// Pid of `up`.
func (s *Stage) Pid() int { return s.command.Process.Pid }

// Output is what `up` printed so far.
func (s *Stage) Output() string { return s.output.String() }

// Kill ends `up` as a power cut would, and returns when it is gone.
func (s *Stage) Kill() {
	_ = s.command.Process.Kill()
	<-s.ended
	s.close()
}

// Stop is Ctrl-C. It returns how `up` ended.
func (s *Stage) Stop() error {
	_ = s.command.Process.Signal(os.Interrupt)
	<-s.ended
	s.close()
	if s.failed != nil {
		return fmt.Errorf("purser up ended with: %w\n%s", s.failed, s.output)
	}
	return nil
}

func (s *Stage) close() {
	if s.Driver != nil {
		_ = s.Driver.Close()
	}
}

// transcript keeps what is printed, passes it on, and notices when `up` is ready.
type transcript struct {
	mu     sync.Mutex
	all    bytes.Buffer
	echo   io.Writer
	ready  chan struct{}
	closed bool
}

func newTranscript(echo io.Writer) *transcript {
	if echo == nil {
		echo = io.Discard
	}
	return &transcript{echo: echo, ready: make(chan struct{})}
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.Write(p)
	if !t.closed && readyLine(t.all.Bytes()) {
		t.closed = true
		close(t.ready)
	}
	return t.echo.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

func readyLine(text []byte) bool {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Ready in ") {
			return true
		}
	}
	return false
}
