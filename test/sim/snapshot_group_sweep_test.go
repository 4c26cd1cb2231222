package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

var groupWorkloads = []snapshotWork{
	{name: "group", policy: snapshotv1.VolumeSnapshotContentDelete},
	{name: "group retained", policy: snapshotv1.VolumeSnapshotContentRetain},
	{name: "group processed for long", policy: snapshotv1.VolumeSnapshotContentDelete, unready: 2},
	{name: "group after timeouts", policy: snapshotv1.VolumeSnapshotContentDelete, timeouts: 2},
	{name: "group processed for minutes", policy: snapshotv1.VolumeSnapshotContentDelete, unready: 8},
}

// playGroup takes a group snapshot of two claims, which an expression selects, deletes it, and
// checks what is left. early has the user delete it at the moment of the fault.
func (w *snapshotWorld) playGroup(work snapshotWork, early bool) {
	w.unready, w.timeouts = work.unready, work.timeouts
	w.furnishGroup(work)
	group := &groupv1.VolumeGroupSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "group"},
		Spec: groupv1.VolumeGroupSnapshotSpec{
			VolumeGroupSnapshotClassName: new("c"),
			Source: groupv1.VolumeGroupSnapshotSource{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "part", Operator: metav1.LabelSelectorOpIn, Values: []string{"one", "two"}},
			}}},
		},
	}
	w.create(group)
	remove := func() {
		err := w.server.Client().Delete(w.t.Context(), group.DeepCopy())
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
	if early {
		w.onFault = remove
	}
	if !w.settle() {
		w.wrong = append(w.wrong, "it does not settle after the start")
	}
	if !early {
		w.groupIsReady(client.ObjectKeyFromObject(group))
	}
	remove()
	if !w.settle() {
		w.wrong = append(w.wrong, "it does not settle after the deletion")
	}
	w.endOfGroup(work, string(group.UID), early)
}

// groupIsReady holds that group and members can be restored: one member for each selected claim.
func (w *snapshotWorld) groupIsReady(key client.ObjectKey) {
	group := &groupv1.VolumeGroupSnapshot{}
	if err := w.server.Client().Get(w.t.Context(), key, group); err != nil {
		w.wrong = append(w.wrong, "the group is gone")
		return
	}
	if group.Status == nil || group.Status.ReadyToUse == nil || !*group.Status.ReadyToUse {
		w.wrong = append(w.wrong, "the group is not ready")
	}
	var claims []string
	for _, vs := range apiserverSnapshots(w) {
		if vs.Status == nil || vs.Status.ReadyToUse == nil || !*vs.Status.ReadyToUse {
			w.wrong = append(w.wrong, "member "+vs.Name+" is not ready")
		}
		claims = append(claims, *vs.Spec.Source.PersistentVolumeClaimName)
	}
	if slices.Sort(claims); !slices.Equal(claims, []string{"one", "two"}) {
		w.wrong = append(w.wrong, fmt.Sprintf("the members are of the claims %v", claims))
	}
}

// endOfGroup holds the invariants: no group, member or finalizer is left, the group was taken once,
// under one name and of the selected volumes, no snapshot is leaked, and a retained one still has
// its content.
func (w *snapshotWorld) endOfGroup(work snapshotWork, uid string, early bool) {
	w.silences.atEnd()
	if left := objectsOf(w, &groupv1.VolumeGroupSnapshot{}); len(left) > 0 {
		w.wrong = append(w.wrong, fmt.Sprintf("the group is left, with the finalizers %v", left[0].Finalizers))
	}
	for _, vs := range apiserverSnapshots(w) {
		w.wrong = append(w.wrong, fmt.Sprintf("member %s is left, with the finalizers %v", vs.Name, vs.Finalizers))
	}
	for name := range w.groups.made {
		if name != "groupsnapshot-"+uid || !slices.Equal(w.groups.sources, []string{"one", "two"}) {
			w.wrong = append(w.wrong, fmt.Sprintf("the group %s was made, of %v", name, w.groups.sources))
		}
	}
	kept := map[string]bool{}
	for _, content := range objectsOf(w, &groupv1.VolumeGroupSnapshotContent{}) {
		if work.policy == snapshotv1.VolumeSnapshotContentDelete {
			w.wrong = append(w.wrong, "the content "+content.Name+" is left")
		}
		if content.Status != nil {
			for _, info := range content.Status.VolumeSnapshotInfoList {
				kept[info.SnapshotHandle] = true
			}
		}
	}
	if work.policy == snapshotv1.VolumeSnapshotContentDelete {
		for _, content := range apiserverContents(w) {
			w.wrong = append(w.wrong, "the content "+content.Name+" is left")
		}
	}
	for _, id := range w.snapshots {
		if !kept[id] {
			w.wrong = append(w.wrong, "the snapshot "+id+" is leaked: no content has its handle")
		}
	}
	if work.policy == snapshotv1.VolumeSnapshotContentRetain && !early && len(w.snapshots) != 2 {
		w.wrong = append(w.wrong, fmt.Sprintf("%d snapshots are retained, want 2", len(w.snapshots)))
	}
}

// TestGroupFaultFree is each workload without a fault: one CreateVolumeGroupSnapshot and one
// DeleteVolumeGroupSnapshot, and none for the members.
func TestGroupFaultFree(t *testing.T) {
	for _, work := range groupWorkloads {
		w := newSnapshotWorld(t, snapshotMutant{})
		w.playGroup(work, false)
		for _, wrong := range w.wrong {
			t.Errorf("%s: %s", work.name, wrong)
		}
		wanted := 1
		if work.policy == snapshotv1.VolumeSnapshotContentRetain {
			wanted = 0
		}
		if w.created != 1+work.unready+work.timeouts || w.deleted != wanted {
			t.Errorf("%s: %d calls that create and %d that delete", work.name, w.created, w.deleted)
		}
		t.Logf("%s: %d writes and calls", work.name, w.done)
	}
}

// TestGroupSweep crashes both halves at every write and call about a group.
func TestGroupSweep(t *testing.T) { mustHold(t, groupWorkloads, (*snapshotWorld).playGroup) }

// groupMutants break one rule each.
var groupMutants = []snapshotMutant{
	{name: "the content is not marked before CreateVolumeGroupSnapshot", write: func(_ client.Object, patch string) bool {
		return !strings.Contains(patch, names.AnnGroupBeingCreated)
	}},
	{name: "the content of the group has no finalizer", strip: func(o client.Object) {
		if _, is := o.(*groupv1.VolumeGroupSnapshotContent); is {
			o.SetFinalizers(nil)
		}
	}, write: func(o client.Object, patch string) bool {
		_, is := o.(*groupv1.VolumeGroupSnapshotContent)
		return !is || !strings.Contains(patch, names.FinalizerGroupContent)
	}},
	{name: "the group has no finalizer", write: func(o client.Object, patch string) bool {
		_, is := o.(*groupv1.VolumeGroupSnapshot)
		return !is || !strings.Contains(patch, "finalizers")
	}},
	{name: "the name differs from process to process", fresh: true},
	{name: "the driver is not asked to delete the group", keeps: true},
	{name: "emits no event", mute: true},
	{name: "does not say that a wait lasts", sayAfter: always},
}

// TestGroupMutants shows that the sweep sees each broken rule.
func TestGroupMutants(t *testing.T) {
	mustSee(t, groupMutants, groupWorkloads, (*snapshotWorld).playGroup)
}
