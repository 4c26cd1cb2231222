package provisioner

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/sources"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// addSourceProtection registers the controller of the finalizers on sources. It and the controller
// of claims refer to each other, which is set before either runs.
func addSourceProtection(ctx context.Context, p *parts) error {
	settings := p.settings
	// A VolumeSnapshot that is deleted after a burst of restores waits for its finalizer's turn.
	settings.Workers = int(max(p.role.Sources.CloneWorkers, p.role.Workers, 1))
	sweep := max(p.role.Sources.SnapshotSweep, 0)
	if !p.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT] {
		sweep = 0
	}
	var elsewhere func(context.Context) ([]source.Request, error)
	if p.role.NodeDeployment.Enabled {
		elsewhere = p.requestsElsewhere
	}
	if err := p.cacheSnapshots(ctx); err != nil {
		return err
	}
	together := p.role.InProcess.Snapshots
	if !p.has(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT) {
		together = nil // the snapshot-controller does not run
	}
	p.sources = sources.New(sources.Config{
		Together:  together,
		Snapshots: p.cachedSnapshots,
		Settings:  settings, Cached: p.Cached, Live: p.Manager.GetAPIReader(),
		Writer: p.Writer,
		Driver: p.Driver.Name, Sweep: sweep, Elsewhere: elsewhere,
		Asks:     func(claim *corev1.PersistentVolumeClaim) bool { return p.claims.Asks(claim) },
		Requests: func(ctx context.Context) ([]source.Request, error) { return p.claims.SourceRequests(ctx) },
		Flushed:  func(ctx context.Context) error { return p.journal.Flushed(ctx) },
	})
	if together != nil {
		together.SetRestores(p.sources)
	}
	return p.sources.AddTo(ctx, p.Manager)
}

// snapshotKind is a kind that a restore reads.
type snapshotKind struct {
	object         client.Object
	name, resource string
	verbs          []string // that the informer cache of it takes
}

var snapshotKinds = []snapshotKind{
	// A cached VolumeSnapshot is compared by the update that protects it.
	{&snapshotv1.VolumeSnapshot{}, "VolumeSnapshot", "volumesnapshots", []string{"list", "watch", "update"}},
	{
		&snapshotv1.VolumeSnapshotContent{}, "VolumeSnapshotContent", "volumesnapshotcontents",
		[]string{"list", "watch"},
	},
}

// cacheSnapshots has restores read VolumeSnapshots and their contents from the informer cache, as far as
// the API server serves them and the account may watch them: upstream's role has get and list of contents
// (RB-5). Instances on each node do without: each would have all of the cluster.
func (p *parts) cacheSnapshots(ctx context.Context) error {
	if !p.has(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT) || p.role.NodeDeployment.Enabled {
		return nil
	}
	var cached []client.Object
	for _, kind := range snapshotKinds {
		if p.mayCache(ctx, kind) {
			cached = append(cached, kind.object)
		}
	}
	if len(cached) == 0 {
		return nil
	}
	snapshots := newSnapshotCache(p.Cached, p.Manager, cached)
	if err := p.Manager.Add(snapshots); err != nil {
		return fmt.Errorf("cache snapshots: %w", err)
	}
	p.snapshots = snapshots
	if cached[0] == snapshotKinds[0].object {
		p.cachedSnapshots = snapshots
	}
	return nil
}

func (p *parts) mayCache(ctx context.Context, kind snapshotKind) bool {
	version := snapshotv1.SchemeGroupVersion
	_, err := p.Manager.GetRESTMapper().RESTMapping(version.WithKind(kind.name).GroupKind(), version.Version)
	if err != nil {
		return false
	}
	var wanted []process.Permission
	for _, verb := range kind.verbs {
		wanted = append(wanted, process.Permission{Group: names.SnapshotGroup, Resource: kind.resource, Verb: verb})
	}
	missing, err := process.MissingPermissions(ctx, p.API, wanted)
	isAllowed := err == nil && len(missing) == 0
	logr.FromContextOrDiscard(ctx).V(3).Info("sources of restores", "kind", kind.name, "fromCache", isAllowed)
	return isAllowed
}
