package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/purser-csi/purser/internal/core/mounting"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/node"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/world"
)

// Run implements cli.Role.
func (n *Node) Run(ctx context.Context) error {
	ctx, err := process.StartLogging(ctx, n.Log, n.Logging)
	if err != nil {
		return err
	}
	unlock, err := n.lockRoots()
	if err != nil {
		return err
	}
	defer unlock()
	api, err := n.Config("purser-node/" + n.Version)
	if err != nil {
		return err
	}
	server := process.NewHTTPServer(n.ServerConfig(prometheus.Gatherers{ctrlmetrics.Registry, n.Registry}))
	server.SetCheck("cache", process.NotYet("the first list of objects is not complete"))
	if err := n.Listen(ctx, server); err != nil {
		return err
	}
	defer server.Stop()
	n.CountThrottle(n.Registry)
	dropped := telemetry.NewCounter(n.Registry, telemetry.MetricEventsDropped).WithLabelValues().Inc
	events, err := kube.NewEvents(ctx, kube.EventsConfig{API: api, Component: "kubelet", Dropped: dropped})
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	defer events.Close()
	mgr, err := n.newManager(ctx, api)
	if err != nil {
		return err
	}
	if err := n.add(ctx, mgr, events); err != nil {
		return err
	}
	server.SetCheck("cache", func(ctx context.Context) error { return process.CacheSynced(ctx, mgr) })
	if err := errors.Join(mgr.Add(server), process.OnStarted(mgr, n.Started), process.SaveMemory(mgr)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager returns a manager. If the role serves one node, its cache has only the pods of that
// node.
func (n *Node) newManager(ctx context.Context, api *rest.Config) (manager.Manager, error) {
	places := n.places()
	return process.NewManager(ctx, process.ManagerConfig{
		API: api, Trim: trim, Drain: n.Timeout, Election: &process.Election{},
		NewCache: func(api *rest.Config, o ctrlcache.Options) (ctrlcache.Cache, error) {
			if len(places) == 1 {
				o.ByObject = map[client.Object]ctrlcache.ByObject{
					&corev1.Pod{}:  {Field: fields.OneTermEqualSelector("spec.nodeName", places[0].Name)},
					&corev1.Node{}: {Field: fields.OneTermEqualSelector("metadata.name", places[0].Name)},
				}
			}
			return ctrlcache.New(api, o)
		},
	})
}

func (n *Node) add(ctx context.Context, mgr manager.Manager, events reconcile.Recorder) error {
	if err := world.AddIndexes(ctx, mgr.GetFieldIndexer(), node.Indexes()...); err != nil {
		return err
	}
	settings := reconcile.Settings{
		Workers: int(n.Workers), //nolint:gosec // a count of threads
		Backoff: reconcile.Backoff{First: n.RetryStart, Most: n.RetryMax},
		Clock:   clock.RealClock{}, Events: events, Decided: telemetry.NewCounter(n.Registry, telemetry.MetricDecisions),
	}
	inFlight, called := telemetry.NewGauge(n.Registry, telemetry.MetricInFlight), telemetry.NewCSIOperations(n.Registry)
	var agents []*node.Agent
	for _, place := range n.places() {
		agent := node.New(node.Config{
			Settings: settings, Node: place.Name, Root: place.Root, Runtime: n.runtime(), Given: place.Given,
			Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), Writer: mgr.GetClient(),
			Timeout: n.Timeout, PerDriver: int(n.PerDriver), InFlight: inFlight, //nolint:gosec // a count of threads
			Called: called, StatsEvery: n.StatsEvery,
		})
		if err := agent.AddTo(ctx, mgr); err != nil {
			return fmt.Errorf("node %s: %w", place.Name, err)
		}
		agents = append(agents, agent)
	}
	telemetry.NewVolumeStats(n.Registry, func() map[types.NamespacedName]mounting.Stats {
		all := map[types.NamespacedName]mounting.Stats{} // a claim on several nodes is one
		for _, agent := range agents {
			maps.Copy(all, agent.VolumeStats())
		}
		return all
	})
	return nil
}

// trim drops the fields that the agent never reads.
func trim(in any) (any, error) {
	if o, ok := in.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	switch o := in.(type) {
	case *corev1.Node:
		o.Status.Images = nil
	case *corev1.Pod:
		for _, list := range [][]corev1.Container{o.Spec.InitContainers, o.Spec.Containers} {
			for i := range list {
				list[i].Env, list[i].Args, list[i].Command = nil, nil, nil
			}
		}
	}
	return in, nil
}

// lockRoots keeps a second agent from the same root directory. The kernel releases the locks when
// the process ends, even by SIGKILL.
func (n *Node) lockRoots() (unlock func(), err error) {
	var files []*os.File
	unlock = func() {
		for _, file := range files {
			_ = file.Close()
		}
	}
	for _, place := range n.places() {
		path, err := lockPath(place.Root)
		if err != nil {
			unlock()
			return nil, err
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err == nil {
			files = append(files, file)
			err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) //nolint:gosec // a descriptor is small
		}
		if err != nil {
			unlock()
			return nil, fmt.Errorf("--root-dir=%s: another agent has the folder, or it cannot be locked: %w", place.Root, err)
		}
	}
	return unlock, nil
}
