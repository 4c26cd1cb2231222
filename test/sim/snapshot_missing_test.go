package sim

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

// snapshotEvents keeps the events of the world's controllers.
type snapshotEvents struct{ w *snapshotWorld }

// Event implements reconcile.Recorder.
func (e snapshotEvents) Event(object runtime.Object, eventType, reason, message string) {
	if e.w.mutant.mute {
		return
	}
	if o, ok := object.(client.Object); ok {
		e.w.silences.event(o, reason)
	}
	e.w.events = append(e.w.events, fmt.Sprintf("%T %s %s", object, eventType, message))
}

// readSecret reads secrets. The mutant marks all contents before.
func (w *snapshotWorld) readSecret(api client.Client) func(context.Context, types.NamespacedName) (map[string]string, error) {
	read := kube.ReadSecret(api)
	return func(ctx context.Context, ref types.NamespacedName) (map[string]string, error) {
		if w.mutant.marksEarly {
			for _, content := range apiserverContents(w) {
				w.markEarly(content, names.AnnSnapshotBeingCreated)
			}
			for _, content := range objectsOf(w, &groupv1.VolumeGroupSnapshotContent{}) {
				w.markEarly(content, names.AnnGroupBeingCreated)
			}
		}
		return read(ctx, ref)
	}
}

func (w *snapshotWorld) markEarly(o client.Object, key string) {
	before := o.DeepCopyObject().(client.Object)
	o.SetAnnotations(map[string]string{key: "yes"})
	maps.Copy(o.GetAnnotations(), before.GetAnnotations())
	_ = w.server.Client().Patch(w.t.Context(), o, client.MergeFrom(before))
}

// missing is what goes, or was never there, when the user deletes everything.
type missing struct {
	name          string
	never         bool // the secret was never there
	secret, class bool // go at that moment
}

var allMissing = []missing{
	{name: "no secret from the start", never: true},
	{name: "no secret from the start, and the class goes", never: true, class: true},
	{name: "the secret goes", secret: true},
	{name: "the class goes", class: true},
	{name: "secret and class go", secret: true, class: true},
	{name: "nothing is missing"},
}

// missingWorkloads name a secret in the namespace of the snapshots.
var missingWorkloads = []snapshotWork{
	{name: "one"}, {name: "processed for long", unready: 2}, {name: "after timeouts", timeouts: 2},
}

func secretOfSnapshots() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x"}}
}

// deleteAll has the user delete an object of each kind, whether it exists or not.
func (w *snapshotWorld) deleteAll(all ...client.Object) {
	for _, o := range all {
		if err := client.IgnoreNotFound(w.server.Client().Delete(w.t.Context(), o.DeepCopyObject().(client.Object))); err != nil {
			w.t.Fatal(err)
		}
	}
}

// furnishMissing creates the claims and the class of a snapshot, or of a group, and returns the class
// and what is to be created.
func (w *snapshotWorld) furnishMissing(work snapshotWork, group bool) (class, subject client.Object) {
	work.policy, work.count = snapshotv1.VolumeSnapshotContentDelete, 1
	work.parameters = map[string]string{
		names.ParameterSnapshotterSecretName: "x", names.ParameterSnapshotterSecretNamespace: "n",
	}
	w.unready, w.timeouts = work.unready, work.timeouts
	meta := metav1.ObjectMeta{Namespace: "n", Name: "first"}
	if group {
		work.parameters = map[string]string{
			names.ParameterGroupSnapshotterSecretName: "x", names.ParameterGroupSnapshotterSecretNamespace: "n",
		}
		w.furnishGroup(work)
		class = &groupv1.VolumeGroupSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Driver: "d", DeletionPolicy: work.policy, Parameters: work.parameters}
		subject = &groupv1.VolumeGroupSnapshot{ObjectMeta: meta, Spec: groupv1.VolumeGroupSnapshotSpec{
			VolumeGroupSnapshotClassName: new("c"),
			Source:                       groupv1.VolumeGroupSnapshotSource{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"part": "one"}}},
		}}
	} else {
		w.createObjects(work)
		class = &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Driver: "d", DeletionPolicy: work.policy, Parameters: work.parameters}
		subject = &snapshotv1.VolumeSnapshot{ObjectMeta: meta, Spec: snapshotv1.VolumeSnapshotSpec{
			VolumeSnapshotClassName: new("c"), Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("claim")},
		}}
	}
	return class, subject
}

// playMissing takes a snapshot, or a group. At the n-th write or call, what is missing goes and the
// user deletes everything; for n zero, when nothing happens any more. Then everything must go. Only
// where a call may have made a snapshot may the rest stay, with an event that says what to do; and
// once that is done, everything must go. Nothing is leaked.
func (w *snapshotWorld) playMissing(work snapshotWork, group bool, m missing) {
	class, subject := w.furnishMissing(work, group)
	if !m.never {
		w.create(secretOfSnapshots())
	}
	w.create(subject.DeepCopyObject().(client.Object))
	happened := false
	everything := func() {
		happened = true
		if m.secret {
			w.deleteAll(secretOfSnapshots())
		}
		if m.class {
			w.deleteAll(class)
		}
		w.deleteAll(subject)
		for _, claim := range objectsOf(w, &corev1.PersistentVolumeClaim{}) {
			w.deleteAll(claim)
		}
	}
	w.around = func(act func() error) error {
		everything()
		return act()
	}
	if w.settle(); !happened {
		everything()
		w.settle()
	}
	if left := w.left(); left != "" {
		if w.created == 0 {
			w.wrong = append(w.wrong, "no call was made, and these are left:"+left)
		}
		if !strings.Contains(strings.Join(w.events, "\n"), "remove the annotation") {
			w.wrong = append(w.wrong, "no event says what to do about what is left:"+left)
		}
		if m.never || m.secret {
			w.create(secretOfSnapshots())
		}
		if m.class {
			w.create(class)
		}
		w.settle()
	}
	if left := w.left(); left != "" {
		w.wrong = append(w.wrong, "these are left:"+left)
	}
	if len(w.snapshots) > 0 {
		w.wrong = append(w.wrong, fmt.Sprintf("%d snapshots are leaked", len(w.snapshots)))
	}
}

// left names the objects that were to go.
func (w *snapshotWorld) left() (text string) {
	var all []client.Object
	for _, o := range apiserverSnapshots(w) {
		all = append(all, o)
	}
	for _, o := range apiserverContents(w) {
		all = append(all, o)
	}
	for _, o := range objectsOf(w, &corev1.PersistentVolumeClaim{}) {
		if slices.Contains(o.Finalizers, names.FinalizerSnapshotClaim) { // pvc-protection does not run here
			all = append(all, o)
		}
	}
	for _, o := range append(all, w.groupObjects()...) {
		text += fmt.Sprintf(" %T %s %v", o, o.GetName(), o.GetFinalizers())
	}
	return text
}

// sweepMissing has each thing be missing at each write and call.
func sweepMissing(t *testing.T, mutant snapshotMutant, group bool) (runs int, wrong []string) {
	t.Helper()
	every := 3
	if os.Getenv("SIM") == "whole" {
		every = 1
	}
	for _, work := range missingWorkloads {
		for _, m := range allMissing {
			whole := newSnapshotWorld(t, mutant)
			whole.playMissing(work, group, m)
			for at := 0; at <= whole.done; at += every {
				w := newSnapshotWorld(t, mutant)
				w.at = at
				w.playMissing(work, group, m)
				runs++
				for _, text := range w.wrong {
					wrong = append(wrong, fmt.Sprintf("%s, %s, at %d: %s", work.name, m.name, at, text))
				}
			}
		}
	}
	return runs, wrong
}

// TestEverythingDeletedGoes deletes everything at each write and call about a snapshot and about a
// group, while something is missing.
func TestEverythingDeletedGoes(t *testing.T) {
	for _, group := range []bool{false, true} {
		runs, wrong := sweepMissing(t, snapshotMutant{}, group)
		for _, text := range wrong[:min(len(wrong), 10)] {
			t.Errorf("group %t: %s", group, text)
		}
		t.Logf("group %t: %d runs", group, runs)
		if _, wrong := sweepMissing(t, snapshotMutant{name: "marked before the secret is read", marksEarly: true}, group); len(wrong) == 0 {
			t.Errorf("group %t: a content that is marked before its secret is read is not seen", group)
		}
	}
}

// playShared imports two contents with one handle, and deletes the VolumeSnapshot of the first one,
// then that of the second; early deletes both at once.
func (w *snapshotWorld) playShared(work snapshotWork, early bool) {
	w.snapshots["old"] = "old"
	remove := func(name string) func() {
		return func() {
			w.deleteAll(&snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}})
		}
	}
	for _, name := range []string{"first", "second"} {
		w.create(&snapshotv1.VolumeSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: snapshotv1.VolumeSnapshotContentSpec{
				Driver: "d", DeletionPolicy: work.policy, VolumeSnapshotRef: corev1.ObjectReference{Namespace: "n", Name: name},
				Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new("old")},
			},
		})
		w.create(&snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name},
			Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: new(name)}},
		})
	}
	if early {
		w.onFault = remove("second")
	}
	w.settle()
	remove("first")()
	w.settle()
	if second := w.alive("second"); second && w.snapshots["old"] == "" {
		w.wrong = append(w.wrong, "the snapshot of the second content was deleted with the first one")
	}
	remove("second")()
	for _, content := range apiserverContents(w) { // one that was not bound when its VolumeSnapshot went
		w.deleteAll(content)
	}
	w.settle()
	if left := w.left(); left != "" {
		w.wrong = append(w.wrong, "these are left:"+left)
	}
	if len(w.snapshots) > 0 {
		w.wrong = append(w.wrong, "the snapshot is leaked")
	}
}

func (w *snapshotWorld) alive(name string) bool {
	for _, vs := range apiserverSnapshots(w) {
		if vs.Name == name && vs.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

// TestSharedContents crashes both halves at every write and call about two contents with one handle
// (D-37). The mutant does not find the other content.
func TestSharedContents(t *testing.T) {
	works := []snapshotWork{{name: "two contents", policy: snapshotv1.VolumeSnapshotContentDelete}}
	mustHold(t, works, (*snapshotWorld).playShared)
	mustSee(t, []snapshotMutant{{name: "the contents with the handle are not found", blind: true}}, works, (*snapshotWorld).playShared)
}
