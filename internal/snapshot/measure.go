package snapshot

import (
	"context"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"

	"github.com/purser-csi/purser/internal/telemetry"
)

// measure notes how far a VolumeSnapshot is (SN-M1).
func (c *Controller) measure(vs *snapshotv1.VolumeSnapshot, gone bool) {
	status := ptr.Deref(vs.Status, snapshotv1.VolumeSnapshotStatus{})
	c.Operations.Observe(c.Clock.Now(), telemetry.SnapshotState{
		UID: vs.UID, PreProvisioned: rules.SourceClaim(vs) == "", Taken: status.CreationTime != nil,
		Ready:    rules.IsReady(vs),
		Deleting: vs.DeletionTimestamp != nil, Gone: gone,
		Driver: func() string { return c.driverOf(vs) },
	})
}

// measureGroup notes how far a VolumeGroupSnapshot is.
func (g *GroupController) measureGroup(group *groupv1.VolumeGroupSnapshot, gone bool) {
	status := ptr.Deref(group.Status, groupv1.VolumeGroupSnapshotStatus{})
	g.Operations.Observe(g.Clock.Now(), telemetry.SnapshotState{
		UID: group.UID, Group: true, PreProvisioned: group.Spec.Source.Selector == nil,
		Taken: status.CreationTime != nil,
		Ready: rules.GroupIsReady(group), Deleting: group.DeletionTimestamp != nil, Gone: gone,
		Driver: func() string { return g.driverOf(group) },
	})
}

// driverTime bounds the reads of the cache for a label, since they are made in an event handler and
// wait for the first list of their kind.
const driverTime = time.Second

// driverOf returns the driver of the content, else that of the class; empty while neither is there.
func (c *Controller) driverOf(vs *snapshotv1.VolumeSnapshot) string {
	content := readCache(c.Cached, rules.ContentName(vs), &snapshotv1.VolumeSnapshotContent{})
	if content != nil {
		return content.Spec.Driver
	}
	name := ptr.Deref(vs.Spec.VolumeSnapshotClassName, "")
	if class := readCache(c.Cached, name, &snapshotv1.VolumeSnapshotClass{}); class != nil {
		return class.Driver
	}
	return ""
}

func (g *GroupController) driverOf(group *groupv1.VolumeGroupSnapshot) string {
	content := readCache(g.Cached, rules.GroupContentName(group), &groupv1.VolumeGroupSnapshotContent{})
	if content != nil {
		return content.Spec.Driver
	}
	name := ptr.Deref(group.Spec.VolumeGroupSnapshotClassName, "")
	if class := readCache(g.Cached, name, &groupv1.VolumeGroupSnapshotClass{}); class != nil {
		return class.Driver
	}
	return ""
}

// readCache returns an object of the cache; nil if there is none, or the cache has no list yet.
func readCache[T client.Object](cache client.Reader, name string, into T) T {
	ctx, cancel := context.WithTimeout(context.Background(), driverTime)
	defer cancel()
	found, err := kube.Get(ctx, cache, types.NamespacedName{Name: name}, into)
	if err != nil {
		var none T
		return none
	}
	return found
}
