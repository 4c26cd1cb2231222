package snapshot

import (
	"fmt"
	"slices"
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type emitted struct{ all []string }

func (e *emitted) Event(o runtime.Object, kind, reason, message string) {
	e.all = append(e.all, fmt.Sprintf("%T %s: %s %s %s", o, o.(client.Object).GetName(), kind, reason, message))
}

// A snapshot that the driver fails to delete: its user sees the VolumeSnapshot, and not the content.
func TestDeletionThatFailsIsSaidOnTheSnapshot(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "content"}
	going := *meta.DeepCopy()
	going.DeletionTimestamp = new(metav1.Now())
	content := func(m metav1.ObjectMeta) runtime.Object {
		return &snapshotv1.VolumeSnapshotContent{ObjectMeta: m, Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "crew", Name: "monday", UID: "u"},
		}}
	}
	group := func(m metav1.ObjectMeta) runtime.Object {
		return &groupv1.VolumeGroupSnapshotContent{ObjectMeta: m, Spec: groupv1.VolumeGroupSnapshotContentSpec{
			VolumeGroupSnapshotRef: corev1.ObjectReference{Namespace: "crew", Name: "all", UID: "g"},
		}}
	}
	for name, tc := range map[string]struct {
		object runtime.Object
		kind   string
		want   []string
	}{
		"snapshot": {content(going), corev1.EventTypeWarning, []string{
			"*v1.VolumeSnapshotContent content: Warning R busy", "*v1.VolumeSnapshot monday: Warning R busy",
		}},
		"group": {group(going), corev1.EventTypeWarning, []string{
			"*v1.VolumeGroupSnapshotContent content: Warning R busy", "*v1.VolumeGroupSnapshot all: Warning R busy",
		}},
		"not being deleted": {content(meta), corev1.EventTypeWarning, []string{"*v1.VolumeSnapshotContent content: Warning R busy"}},
		"no warning":        {content(going), corev1.EventTypeNormal, []string{"*v1.VolumeSnapshotContent content: Normal R busy"}},
	} {
		got := &emitted{}
		recorder{got}.Event(tc.object, tc.kind, "R", "busy")
		if !slices.Equal(got.all, tc.want) {
			t.Errorf("%s: %q, want %q", name, got.all, tc.want)
		}
	}
}

// decided notes the reasons of decisions.
type decided struct{ emitted }

func (d *decided) EventOf(why string, o runtime.Object, kind, reason, message string) {
	d.Event(o, kind, reason+" for "+why, message)
}

// Both events have the reason of the decision.
func TestDeletionThatFailsHasItsReason(t *testing.T) {
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content", DeletionTimestamp: new(metav1.Now())},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "crew", Name: "monday", UID: "u"},
		},
	}
	got := &decided{}
	recorder{got}.EventOf("ContentDeleteFailed", content, corev1.EventTypeWarning, "SnapshotDeleteError", "busy")
	want := []string{
		"*v1.VolumeSnapshotContent content: Warning SnapshotDeleteError for ContentDeleteFailed busy",
		"*v1.VolumeSnapshot monday: Warning SnapshotDeleteError for ContentDeleteFailed busy",
	}
	if !slices.Equal(got.all, want) {
		t.Errorf("%q, want %q", got.all, want)
	}
}
