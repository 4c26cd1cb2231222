package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// driverName is that of the built-in driver.
const driverName = "csi.purser"

// rig is a cluster and a driver, for provisioners in processes of their own. (In `up` all are one
// process, whose memory is that of all roles.)
type rig struct {
	bin, dir string
	cluster  *cluster.Cluster
	api      client.WithWatch
	driver   *stage.Program
}

func newRig(ctx context.Context, bin, dir string, components ...cluster.Component) (r *rig, err error) {
	r = &rig{bin: bin, dir: dir}
	binaries, err := cluster.FindBinaries(cluster.Components(components).Programs(), bin)
	if err != nil {
		return nil, err
	}
	r.cluster, err = cluster.Start(
		ctx,
		cluster.Config{Dir: filepath.Join(dir, "cluster"), Binaries: binaries, Components: components},
	)
	if err != nil {
		return nil, err
	}
	if err := r.connect(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.driver, err = r.launch("driver", "--endpoint", "unix://"+r.socket(), "--state-dir", filepath.Join(dir, "driver"))
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) connect() (err error) {
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), storagev1.AddToScheme(scheme),
		coordinationv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("scheme: %w", err)
	}
	if r.api, err = client.NewWithWatch(r.cluster.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("api server: %w", err)
	}
	return nil
}

// stopTime bounds the end of a cluster.
const stopTime = 30 * time.Second

// close ends what newRig has started; without waiting for an orderly end of the driver.
func (r *rig) close() error {
	if r.driver != nil {
		r.driver.Kill()
	}
	if r.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return r.cluster.Stop(ctx)
}

func (r *rig) socket() string { return filepath.Join(r.dir, "csi.sock") }

// launch runs a role of purser, with a log of its own. It does not inherit the settings of this
// process for clusters and memory.
func (r *rig) launch(role string, args ...string) (*stage.Program, error) {
	log, err := os.CreateTemp(r.dir, role+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	return stage.Launch(stage.Command{
		Path: filepath.Join(r.bin, "purser"), Args: append([]string{role}, args...), Output: log,
		Env: []string{"KUBECONFIG=", "GOGC=", "GOMEMLIMIT=", "GODEBUG="},
	})
}

// sidecar is a role that runs, and tells how it is doing.
type sidecar struct {
	*stage.Program
	address string // of its metrics
}

// provision starts a provisioner as the administrator.
func (r *rig) provision(ctx context.Context, args ...string) (*sidecar, error) {
	return r.sidecar(
		ctx,
		"csi-provisioner",
		append([]string{"--csi-address", r.socket(), "--kubeconfig", r.cluster.Kubeconfig()}, args...)...)
}

// sidecar starts a role and returns when it is ready.
func (r *rig) sidecar(ctx context.Context, role string, args ...string) (*sidecar, error) {
	address, err := scrape.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &sidecar{address: address}
	if s.Program, err = r.launch(role, append([]string{"--http-endpoint", address}, args...)...); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (s *sidecar) ready(ctx context.Context) error {
	last := errors.New("did not answer")
	err := wait.PollUntilContextTimeout(
		ctx,
		20*time.Millisecond,
		time.Minute,
		true,
		func(ctx context.Context) (bool, error) {
			select {
			case <-s.Ended():
				return false, errors.New("it has ended")
			default:
			}
			_, last = s.get(ctx, "/readyz")
			return last == nil, nil
		},
	)
	if err != nil {
		return fmt.Errorf("it is not ready: %w: %w", err, last)
	}
	return nil
}

func (s *sidecar) get(ctx context.Context, page string) ([]byte, error) {
	return source{"http://" + s.address, http.DefaultClient}.get(ctx, page)
}

// source is where pages are read.
type source struct {
	at     string
	client *http.Client
}

func (s source) get(ctx context.Context, page string) (content []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at+page, nil)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", page, response.Status)
	}
	return io.ReadAll(response.Body)
}
