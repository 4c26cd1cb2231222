package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/explain/properties"
)

// resync is the resync period of the stock binder. With its default of 15 seconds every step would
// wait for it. An object gets 25 events and then one in five minutes: with a shorter period, events
// that matter would be dropped.
const resync = 700 * time.Millisecond

// folders has the folder of the programs and that of their data.
type folders struct{ bin, dir string }

// side is one set of controllers.
type side struct {
	name    string
	program string
	args    []string
}

// stock are the volume controllers of kube-controller-manager.
func stock(name string) side {
	controllers := []string{
		"persistentvolume-binder-controller", "persistentvolume-expander-controller", "persistentvolumeclaim-protection-controller",
		"persistentvolume-protection-controller", "ephemeral-volume-controller", "volumeattributesclass-protection-controller",
	}
	return side{name: name, program: string(cluster.ControllerManager), args: []string{
		"--controllers=" + strings.Join(controllers, ","), "--pvclaimbinder-sync-period=" + resync.String(),
		"--use-service-account-credentials=true", "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
	}}
}

// ours are those of `purser controllers`.
func ours(args []string) side {
	return side{name: "purser", program: "purser", args: append([]string{"controllers"}, args...)}
}

// testCluster is a running cluster without volume controllers.
type testCluster struct {
	folders folders
	cluster *cluster.Cluster
}

// open starts a cluster with the garbage collector and without volume controllers.
func (h folders) open(ctx context.Context, name string) (*testCluster, error) {
	components := cluster.Components{cluster.ControllerManager}
	binaries, err := cluster.FindBinaries(components.Programs(), h.bin)
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Dir: filepath.Join(h.dir, name), Binaries: binaries, Components: components,
		Controllers: []string{"garbage-collector-controller", "serviceaccount-controller"},
	})
	if err != nil {
		return nil, err
	}
	return &testCluster{folders: h, cluster: c}, nil
}

func (b *testCluster) config() *rest.Config { return b.cluster.RESTConfig() }

// server is where the advice of explain is tried.
func (b *testCluster) server() properties.Server {
	return properties.Server{Kubectl: filepath.Join(b.folders.bin, "kubectl"), Kubeconfig: b.cluster.Kubeconfig()}
}

func (b *testCluster) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return b.cluster.Stop(ctx)
}

// launch starts the controllers of a side, with a log of their own.
func (b *testCluster) launch(s side) (*stage.Program, error) {
	log, err := os.Create(filepath.Join(b.folders.dir, s.name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	path := filepath.Join(b.folders.bin, s.program)
	if _, err := os.Stat(path); err != nil {
		return nil, errors.Join(err, fmt.Errorf("%s is not built; run 'make build tools'", s.program))
	}
	return stage.Launch(stage.Command{
		Path: path, Args: append(append([]string{}, s.args...), "--kubeconfig", b.cluster.Kubeconfig()), Output: log,
		Env: []string{"KUBECONFIG="},
	})
}
