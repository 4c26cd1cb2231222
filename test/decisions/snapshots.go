package decisions

import (
	"context"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/snapshot"
	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/sources"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// snapshot notes what the snapshot-controller decides, and the provisioner about the snapshot as a
// source. It does not follow groups.
func (r run) snapshot(o *snapshotv1.VolumeSnapshot) {
	from := kube.Readers{Cached: r.from.Sidecars, Live: r.from.Live}
	s, err := snapshot.Gather(r.ctx, from.Cached, client.ObjectKeyFromObject(o), snapshotting.Settings{SourceMode: true})
	decided(r, "snapshot", o, s, err, decision[snapshotting.Snapshot, snapshotting.Action]{
		func(s snapshotting.Snapshot) snapshotting.Verdict { return snapshotting.DecideSnapshot(s, r.now) },
		func(ctx context.Context, _ client.Reader, s snapshotting.Snapshot, refs []verdict.Ref) (snapshotting.Snapshot, error) {
			return snapshot.Read(ctx, from, s, refs)
		},
	})
	r.source(o, source.Ref{Group: snapshotv1.GroupName, Kind: source.KindSnapshot, NamespacedName: s.Key})
}

// content notes what csi-snapshotter decides.
func (r run) content(o *snapshotv1.VolumeSnapshotContent) {
	s, err := snapshot.GatherContent(r.ctx, r.from.Sidecars, o, snapshotting.ContentSettings{
		Driver: r.driver, Naming: snapshotting.Naming{Prefix: "snapshot", Length: -1}, Lists: true,
	})
	note(r, "content", o, snapshotting.DecideContent(s, r.now), err)
}

// source notes what the provisioner decides about the finalizer of a claim or a snapshot.
func (r run) source(o client.Object, ref source.Ref) {
	reader := sources.Reader{Readers: r.from.Readers, Driver: r.driver}
	h, err := reader.Gather(r.ctx, ref)
	decided(r, "protect source", o, h, err, decision[source.Held, source.Action]{
		func(h source.Held) source.Verdict { return source.Release(h, r.now) },
		func(ctx context.Context, _ client.Reader, h source.Held, refs []verdict.Ref) (source.Held, error) {
			return reader.Read(ctx, h, refs)
		},
	})
}
