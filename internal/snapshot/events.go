package snapshot

import (
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// recorder emits the warnings about a content that is being deleted for its VolumeSnapshot, or
// VolumeGroupSnapshot, as well: its user sees no other object.
type recorder struct{ reconcile.Recorder }

// Event implements reconcile.Recorder.
func (r recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.EventOf(reason, object, eventType, reason, message)
}

// EventOf emits the event with the reason of its decision.
func (r recorder) EventOf(decided string, object runtime.Object, eventType, reason, message string) {
	reconcile.Emit(r.Recorder, verdict.Reason(decided), object, eventType, reason, message)
	content, is := object.(client.Object)
	if is && content.GetDeletionTimestamp() != nil && eventType == corev1.EventTypeWarning &&
		rules.RefOf(content).UID != "" {
		reconcile.Emit(r.Recorder, verdict.Reason(decided), userOf(content), eventType, reason, message)
	}
}

// userOf returns the VolumeSnapshot or VolumeGroupSnapshot that a content names, which is what its user
// sees, for events.
func userOf(content client.Object) runtime.Object {
	ref := rules.RefOf(content)
	meta := metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
	if _, is := content.(*groupv1.VolumeGroupSnapshotContent); is {
		return &groupv1.VolumeGroupSnapshot{ObjectMeta: meta}
	}
	return &snapshotv1.VolumeSnapshot{ObjectMeta: meta}
}
