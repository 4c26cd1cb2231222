package snapshot

import (
	"context"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// measure notes how far an object is (SN-M1).
func (t *task[O, C, L]) measure(o O, gone bool) {
	status := rules.StatusOf(o)
	t.Operations.Observe(t.Clock.Now(), telemetry.SnapshotState{
		UID: o.GetUID(), Group: t.logKey == telemetry.KeyGroupSnapshot, PreProvisioned: !rules.IsDynamic(o),
		Taken: status.Created != nil, Ready: ptr.Deref(status.Ready, false),
		Deleting: o.GetDeletionTimestamp() != nil, Gone: gone,
		Driver: func() string { return t.driverOf(o) },
	})
}

// driverTime bounds the reads of the cache for a label, since they are made in an event handler and
// wait for the first list of their kind.
const driverTime = time.Second

// driverOf returns the driver of the content, else that of the class; empty while neither is there,
// or the cache has no list yet.
func (t *task[O, C, L]) driverOf(o O) string {
	ctx, cancel := context.WithTimeout(context.Background(), driverTime)
	defer cancel()
	content, err := get[C](ctx, t.Cached, types.NamespacedName{Name: rules.ContentName(o)})
	if err == nil && content != nil {
		return driverName(content)
	}
	name := ptr.Deref(*rules.ClassNameOf(o), "")
	if class, err := get[L](ctx, t.Cached, types.NamespacedName{Name: name}); err == nil && class != nil {
		return driverName(class)
	}
	return ""
}

// driverName returns the driver of a content or class.
func driverName(object any) string {
	switch o := object.(type) {
	case *snapshotv1.VolumeSnapshotContent:
		return o.Spec.Driver
	case *groupv1.VolumeGroupSnapshotContent:
		return o.Spec.Driver
	case *snapshotv1.VolumeSnapshotClass:
		return o.Driver
	case *groupv1.VolumeGroupSnapshotClass:
		return o.Driver
	}
	return ""
}
