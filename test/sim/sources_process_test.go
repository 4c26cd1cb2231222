package sim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	"github.com/purser-csi/purser/internal/kube"
	provisioning "github.com/purser-csi/purser/internal/provision"
	"github.com/purser-csi/purser/internal/sources"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// protectSources wires the controller of the finalizers on sources as internal/roles does, for the
// casts that make volumes from sources.
func (p *process) protectSources(mgr manager.Manager, have parts, claims **provisioning.Controller) provisioning.Sources {
	if !p.world.work.processSet.copies {
		return nil
	}
	m := p.world.mutant
	cfg := sources.Config{
		Settings: p.settings(1), Cached: have.cached, Live: have.api, Writer: have.writer, Driver: driverName,
		Asks:     func(claim *corev1.PersistentVolumeClaim) bool { return (*claims).Asks(claim) },
		Requests: func(ctx context.Context) ([]source.Request, error) { return (*claims).SourceRequests(ctx) },
		Flushed:  func(ctx context.Context) error { return (*claims).Journal.Flushed(ctx) },
	}
	if m.unswept {
		cfg.Live = unlisted{have.api}
	}
	if m.protection != nil {
		m.protection(&cfg)
	}
	cfg.Snapshots = p.snapshots(mgr, have.cached.(*kube.Overlay), have.api)
	c := sources.New(cfg)
	if err := c.AddTo(p.ctx, mgr); err != nil {
		panic(err)
	}
	if m.sources != nil {
		return m.sources(c)
	}
	return c
}

// snapshots returns the reader of snapshots from the cache, for the casts that make volumes from sources.
func (p *process) snapshots(mgr manager.Manager, own *kube.Overlay, live client.Reader) client.Reader {
	if !p.world.work.processSet.copies {
		return nil
	}
	if err := own.Watch(p.ctx, mgr.GetCache(), snapshotKinds...); err != nil {
		panic(err)
	}
	return kube.ByKind(own, live, snapshotKinds...)
}

// unlisted is an API server that has no VolumeSnapshot to list.
type unlisted struct{ client.Reader }

func (u unlisted) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, is := list.(*snapshotv1.VolumeSnapshotList); is {
		return nil
	}
	return u.Reader.List(ctx, list, opts...)
}
