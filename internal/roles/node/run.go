package node

import (
	"context"
	"fmt"
	"maps"
	"os"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/node"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Run implements cli.Role.
func (n *Node) Run(ctx context.Context) error {
	unlock, err := n.lockRoots()
	if err != nil {
		return err
	}
	defer unlock()
	return sidecar.Run(ctx, &n.Config, n.Role())
}

// Role returns the role as package sidecar runs it.
func (n *Node) Role() sidecar.Role {
	return sidecar.Role{
		Name: "node", NoDriver: true, Lease: func(string) string { return "" },
		EventSource: func(string) string { return "kubelet" }, Drain: n.Timeout, Table: n.table, NewCache: n.newCache,
		Check: func(ctx context.Context, s *sidecar.Sidecar, _ *process.PermissionCheck) {
			if len(n.Several) == 0 { // the accounts of a development cluster are wide on purpose
				warnOfWideGrants(ctx, s.API)
			}
		},
	}
}

// newCache returns a cache. If the role serves one node, it has only that Node, its CSINode and its pods.
func (n *Node) newCache(api *rest.Config, o ctrlcache.Options) (ctrlcache.Cache, error) {
	if places := n.places(); len(places) == 1 {
		o.ByObject = map[client.Object]ctrlcache.ByObject{
			&corev1.Pod{}:        {Field: fields.OneTermEqualSelector("spec.nodeName", places[0].Name)},
			&corev1.Node{}:       {Field: fields.OneTermEqualSelector("metadata.name", places[0].Name)},
			&storagev1.CSINode{}: {Field: fields.OneTermEqualSelector("metadata.name", places[0].Name)},
		}
	}
	return ctrlcache.New(api, o)
}

// table lists the controllers: one agent for each node.
func (n *Node) table(_ context.Context, s *sidecar.Sidecar) ([]registry.Controller, error) {
	return []registry.Controller{{
		Name: "node",
		Grants: []registry.Grant{
			registry.Allow("", "pods", "get", "list", "watch", "delete"),
			registry.Allow("", "pods/status", "patch"),
			registry.Allow("", "nodes", "get", "list", "watch", "patch"),
			registry.Allow("", "nodes/status", "patch"),
			registry.Allow("", "persistentvolumes", registry.Read...),
			registry.Allow("", "persistentvolumeclaims", registry.Read...),
			registry.Allow("", "persistentvolumeclaims/status", "patch"),
			registry.Allow(storagev1.GroupName, "volumeattachments", registry.Read...),
			registry.Allow(storagev1.GroupName, "csidrivers", registry.Read...),
			registry.Allow(storagev1.GroupName, "csinodes", "get", "list", "watch", "create", "update", "delete"),
			registry.Allow("", "serviceaccounts/token", "create").
				// see wideGrants
				If(false, "for drivers that want tokens of the pods' service accounts (CSIDriver.spec.tokenRequests)"),
		},
		Fields: []*kube.Fields{
			kube.Whole[corev1.PersistentVolume](), kube.Whole[corev1.PersistentVolumeClaim](),
			kube.Whole[storagev1.VolumeAttachment](), kube.Whole[storagev1.CSIDriver](),
			kube.Whole[storagev1.CSINode](),
			podFields, nodeFields,
		},
		Add: func(ctx context.Context, settings reconcile.Settings) error { return n.add(ctx, s, settings) },
	}}, nil
}

func (n *Node) add(ctx context.Context, s *sidecar.Sidecar, settings reconcile.Settings) error {
	mgr := s.Manager
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), node.Indexes()...); err != nil {
		return err
	}
	called := telemetry.NewCSIOperations(s.Registry)
	var agents []*node.Agent
	for _, place := range n.places() {
		agent := node.New(node.Config{
			Settings: settings, Node: place.Name, Root: place.Root, Runtime: *runtimes[n.Pods], Given: place.Given,
			Cached: s.Cached, Live: mgr.GetAPIReader(), Writer: s.Writer,
			Timeout: n.Timeout, PerDriver: int(n.PerDriver),
			InFlight: s.InFlight(), //nolint:gosec // a count of threads
			Called:   called, Spans: s.Config.Spans, StatsEvery: n.StatsEvery,
		})
		if err := agent.AddTo(ctx, mgr); err != nil {
			return fmt.Errorf("node %s: %w", place.Name, err)
		}
		agents = append(agents, agent)
	}
	telemetry.NewVolumeStats(s.Registry, func() map[types.NamespacedName]mounting.Stats {
		all := map[types.NamespacedName]mounting.Stats{} // a claim on several nodes is one
		for _, agent := range agents {
			maps.Copy(all, agent.VolumeStats())
		}
		return all
	})
	return nil
}

// podFields are a pod without what its containers run.
var podFields = kube.Reads(func(from, to *corev1.Pod) {
	*to = *from
	to.ManagedFields = nil
	for _, list := range [][]corev1.Container{to.Spec.InitContainers, to.Spec.Containers} {
		for i := range list {
			list[i].Env, list[i].Args, list[i].Command = nil, nil, nil
		}
	}
})

// nodeFields are a node without its images.
var nodeFields = kube.Reads(func(from, to *corev1.Node) {
	*to = *from
	to.ManagedFields, to.Status.Images = nil, nil
})

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
			return nil, fmt.Errorf(
				"--root-dir=%s: another agent has the folder, or it cannot be locked: %w", place.Root, err,
			)
		}
	}
	return unlock, nil
}
