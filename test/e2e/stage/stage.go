package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/test/e2e/audit"
)

// Config has the settings of an `up`.
type Config struct {
	Bin        string              // folder with purser and the programs it starts
	DataDir    string              // for --data-dir
	Args       []string            // further flags of `up`
	Echo       io.Writer           // gets what it prints; may be nil
	Socket     string              // of the driver, where --csi-address names one; empty for the built-in driver's
	Credential *syscall.Credential // to run as another user; nil for ourselves
}

// Stage is an `up` that is ready.
type Stage struct {
	Config
	*Program
	Client client.WithWatch
	Admin  *rest.Config
	Driver *csirpc.Conn

	output *transcript
}

// readyTime bounds the start; a cold machine with two busy cores needs a part of it.
const readyTime = 2 * time.Minute

// Start runs `up` and returns when it says that it is ready. When ctx ends before, `up` is stopped
// in good order.
func Start(ctx context.Context, cfg Config) (*Stage, error) {
	s := &Stage{Config: cfg, output: newTranscript(cfg.Echo)}
	var err error
	s.Program, err = Launch(Command{
		Path: filepath.Join(cfg.Bin, "purser"), Args: append([]string{"up", "--data-dir", cfg.DataDir}, cfg.Args...),
		Env: []string{"KUBEBUILDER_ASSETS=" + cfg.Bin}, Output: s.output, Credential: cfg.Credential,
	})
	if err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx); err != nil {
		return nil, err
	}
	if err := s.connect(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Stage) awaitReady(ctx context.Context) error {
	bound, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	select {
	case <-s.output.ready:
		return nil
	case <-s.Ended():
		return fmt.Errorf("purser up ended before it was ready: %w\n%s", s.failed, s.output)
	case <-bound.Done():
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), s.Stop())
	}
	s.Kill()
	return fmt.Errorf("purser up was not ready within %s\n%s", readyTime, s.output)
}

func (s *Stage) connect() error {
	admin, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	admin.QPS = -1
	scheme := k8sruntime.NewScheme()
	err = errors.Join(
		corev1.AddToScheme(scheme), storagev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), snapshotv1.AddToScheme(scheme),
		groupv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme),
	)
	if err != nil {
		return fmt.Errorf("scheme: %w", err)
	}
	s.Admin = admin
	if s.Client, err = client.NewWithWatch(admin, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("api server: %w", err)
	}
	s.Driver, err = csirpc.Dial(csirpc.Config{Endpoint: s.socket(), Timeout: 10 * time.Second})
	return err
}

func (s *Stage) socket() string {
	if s.Socket != "" {
		return s.Socket
	}
	return filepath.Join(s.DataDir, "csi.sock")
}

// Kubeconfig is the path of the administrator's.
func (s *Stage) Kubeconfig() string { return filepath.Join(s.DataDir, "kubeconfig") }

// VolumesDir is the path of the volumes of the built-in driver.
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

// Output is what `up` printed so far.
func (s *Stage) Output() string { return s.output.String() }

// Kill ends `up` as a power cut would, and returns when it is gone.
func (s *Stage) Kill() {
	s.Program.Kill()
	s.disconnect()
}

// Stop sends Ctrl-C. It returns the error with which `up` ended.
func (s *Stage) Stop() error {
	err := s.Program.Stop()
	s.disconnect()
	if err != nil {
		return fmt.Errorf("purser up ended with: %w\n%s", err, s.output)
	}
	return nil
}

func (s *Stage) disconnect() {
	if s.Driver != nil {
		_ = s.Driver.Close()
	}
}

// Audit reads the audit log.
func (s *Stage) Audit() *audit.Log {
	return &audit.Log{Path: filepath.Join(s.DataDir, "logs", "audit.log"), Touch: func(ctx context.Context, mark string) error {
		// The namespace does not exist; the request only puts the mark into the audit log.
		err := s.Client.Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{})
		return client.IgnoreNotFound(err)
	}}
}
