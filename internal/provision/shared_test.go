package provision

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// waiting is a rig with claims that wait for one object each poll, and the number of live reads of it.
type waiting struct {
	*rig
	keys  []provision.Key
	reads int
}

// newWaiting creates claims that are changed by an edit, and counts the reads of objects that count
// selects.
func newWaiting(t *testing.T, number int, edit func(*corev1.PersistentVolumeClaim), count func(client.Object) bool) *waiting {
	t.Helper()
	w := &waiting{rig: newRig(t)}
	w.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT] = true
	w.Driver.Controller[csi.ControllerServiceCapability_RPC_CLONE_VOLUME] = true
	w.Driver.Controller[csi.ControllerServiceCapability_RPC_MODIFY_VOLUME] = true
	var mu sync.Mutex
	w.refuse = func(o client.Object) error {
		mu.Lock()
		defer mu.Unlock()
		if count(o) {
			w.reads++
		}
		return nil
	}
	like := &corev1.PersistentVolumeClaim{}
	if err := w.api.Get(t.Context(), w.key.NamespacedName, like); err != nil {
		t.Fatal(err)
	}
	for n := range number {
		claim := like.DeepCopy()
		claim.Name, claim.UID, claim.ResourceVersion = fmt.Sprint("claim-", n), types.UID(fmt.Sprint("u-", n)), ""
		claim.CreationTimestamp = metav1.NewTime(w.clock.Now())
		edit(claim)
		if err := w.api.Create(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		w.keys = append(w.keys, keyOf(claim))
	}
	return w
}

// poll runs each claim once, and returns the number of reads that it took.
func (w *waiting) poll(t *testing.T) int {
	t.Helper()
	before := w.reads
	for _, w.key = range w.keys {
		w.run(t)
	}
	return w.reads - before
}

// Claims that wait for one snapshot, source claim, secret or attributes class share a read of it in
// each poll, whatever their number; a new claim has its own.
func TestWaitingClaimsShareReads(t *testing.T) {
	fromSnapshot := func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new(names.SnapshotGroup), Kind: "VolumeSnapshot", Name: "s"}
	}
	for name, tc := range map[string]struct {
		edit  func(*corev1.PersistentVolumeClaim)
		count func(client.Object) bool
	}{
		"snapshot": {fromSnapshot, func(o client.Object) bool { _, is := o.(*snapshotv1.VolumeSnapshot); return is }},
		"claim": {func(claim *corev1.PersistentVolumeClaim) {
			claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "source"}
		}, func(o client.Object) bool {
			_, is := o.(*corev1.PersistentVolumeClaim)
			return is && o.GetName() == "source"
		}},
		"attributes class": {func(claim *corev1.PersistentVolumeClaim) {
			claim.Spec.VolumeAttributesClassName = new("gold")
		}, func(o client.Object) bool { _, is := o.(*storagev1.VolumeAttributesClass); return is }},
		"secret": {func(claim *corev1.PersistentVolumeClaim) { claim.Spec.StorageClassName = new("unreadable") }, isSecret},
	} {
		t.Run(name, func(t *testing.T) {
			const number = 30
			w := newWaiting(t, number, tc.edit, tc.count)
			if err := w.api.Create(t.Context(), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "unreadable"}, Provisioner: driverName, Parameters: map[string]string{
					names.ParameterProvisionerSecretName: "missing", names.ParameterProvisionerSecretNamespace: "vault",
				},
			}); err != nil {
				t.Fatal(err)
			}
			if first := w.poll(t); first < number {
				t.Errorf("%d reads for %d new claims: each needs its own", first, number)
			}
			for range 3 {
				w.clock.Step(provision.SharedFor)
				if reads := w.poll(t); reads != 1 {
					t.Errorf("%d reads in one poll of %d claims", reads, number)
				}
			}
		})
	}
}

func isSecret(o client.Object) bool {
	partial, is := o.(*metav1.PartialObjectMetadata)
	return is && partial.Kind == "Secret"
}

// When one claim finds its source changed, the others are enqueued, and each reads it once more.
func TestChangedSourceIsEnqueued(t *testing.T) {
	clock := newRig(t).clock
	r := newSharedReads(clock)
	var changed []source.Ref
	r.onChange(func(ref source.Ref) { changed = append(changed, ref) })
	ref := source.Ref{Kind: source.KindClaim, NamespacedName: types.NamespacedName{Namespace: "crew", Name: "source"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "crew", CreationTimestamp: metav1.NewTime(clock.Now().Add(-time.Hour))}}
	version, reads := "1", 0
	get := func() source.State {
		isRefused := func(s source.State) bool { return s.Claim.ResourceVersion < "3" }
		read := func() (source.State, error) {
			reads++
			return source.State{Ref: ref, Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}}, nil
		}
		state, isShared, err := r.Source(t.Context(), claim, ref, read)
		if err == nil && isShared && !isRefused(state) { // as the decision does
			state, err = read()
		} else if !isShared && isRefused(state) {
			r.keep(claim, state)
		}
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	for _, step := range []struct {
		name, version  string
		wait           time.Duration
		reads, changed int
	}{
		{"the first", "1", 0, 1, 0},
		{"shared", "1", time.Second, 1, 0},
		{"a poll without a change", "1", provision.SharedFor, 2, 0},
		{"a change, and still refused", "2", provision.SharedFor, 3, 1},
		{"shared again", "2", time.Second, 3, 1},
		{"ready", "3", provision.SharedFor, 4, 2},
		{"what is not refused is never shared", "3", time.Second, 5, 2},
	} {
		clock.Step(step.wait)
		version = step.version
		if got := get(); got.Claim.ResourceVersion != step.version || reads != step.reads || len(changed) != step.changed {
			t.Errorf("%s: version %s after %d reads and %d changes; want %s, %d, %d",
				step.name, got.Claim.ResourceVersion, reads, len(changed), step.version, step.reads, step.changed)
		}
	}
}
