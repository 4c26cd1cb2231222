package binder

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// change is what a user or another controller does to the cluster.
type change func(w *testCluster)

func created(objects ...client.Object) change {
	return func(w *testCluster) { w.create(objects...) }
}

func edited[T client.Object](object T, edits func(T)) change {
	return func(w *testCluster) { edit(w, object, edits) }
}

// The objects of TestWakeUps: a claim c, which wants class a unless the row says otherwise, and a
// volume v.

func claimOf(class string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := liveClaim("c", class)
	for _, edit := range edits {
		edit(claim)
	}
	return claim
}

func volumeOf(class string, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	volume := liveVolume("v", class)
	for _, edit := range edits {
		edit(volume)
	}
	return volume
}

func classA(edits ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	class := staticClass("a")
	for _, edit := range edits {
		edit(class)
	}
	return class
}

func withoutClass(c *corev1.PersistentVolumeClaim)   { c.Spec.StorageClassName = nil }
func namesTheVolume(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }
func selectsGold(c *corev1.PersistentVolumeClaim) {
	c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
}

func isGold(v *corev1.PersistentVolume)        { v.Labels = map[string]string{"tier": "gold"} }
func isFreed(v *corev1.PersistentVolume)       { v.Spec.ClaimRef = nil }
func namesTheClaim(v *corev1.PersistentVolume) { v.Spec.ClaimRef = refTo("c") }
func namesAnother(v *corev1.PersistentVolume)  { v.Spec.ClaimRef = refTo("other") }

// refTo names a claim without its uid, as a user does.
func refTo(claim string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Namespace: "default", Name: claim}
}

func isDefault(c *storagev1.StorageClass) {
	c.Annotations = map[string]string{names.AnnDefaultStorageClass: "true"}
}

func waitsForAPod(c *storagev1.StorageClass) {
	c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
}

// chosen is a scheduler, which writes the claim with its uid into the volume.
func chosen(w *testCluster) {
	claim := apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})[0]
	edit(w, volumeOf(""), func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = refTo("c")
		v.Spec.ClaimRef.UID = claim.UID
	})
}

// Each change that a claim waits for enqueues it, without the audit. 8.4, 8.5
//
// A row has the objects that are there when the binder starts, the state that they come to (see
// testCluster.state), and the change after which the claim must be bound to the volume. To add one:
// write what the claim waits for as its name.
func TestWakeUps(t *testing.T) {
	type objects = []client.Object
	for _, tc := range []struct {
		name  string
		there objects
		state string
		then  change
	}{
		{"a volume", objects{claimOf("a")}, "c Pending", created(volumeOf("a"))},
		{
			"a volume that is freed",
			objects{claimOf("a"), volumeOf("a", namesAnother)},
			"c Pending; v Available other by name", edited(volumeOf(""), isFreed),
		},
		{
			"a volume that is reserved by name",
			objects{claimOf("a")},
			"c Pending", created(volumeOf("other", namesTheClaim)),
		},
		{
			"a volume that gets reserved by name",
			objects{claimOf("a"), volumeOf("other")},
			"c Pending; v Available", edited(volumeOf(""), namesTheClaim),
		},
		{
			"the volume that the claim names",
			objects{claimOf("a", namesTheVolume)},
			"c Pending v", created(volumeOf("a")),
		},
		{
			"the volume that the claim names and another one had",
			objects{claimOf("a", namesTheVolume), volumeOf("a", namesAnother)},
			"c Pending v; v Available other by name", edited(volumeOf(""), isFreed),
		},
		{
			"labels that the claim selects",
			objects{claimOf("a", selectsGold), volumeOf("a")},
			"c Pending; v Available", edited(volumeOf(""), isGold),
		},
		{
			"a default class whose volume is there",
			objects{claimOf("", withoutClass), volumeOf("a")},
			"c Pending; v Available", created(classA(isDefault)),
		},
		{
			"a class that becomes the default",
			objects{claimOf("", withoutClass), volumeOf("a"), classA()},
			"c Pending; v Available", edited(classA(), isDefault),
		},
		{
			"a scheduler's choice",
			objects{classA(waitsForAPod), claimOf("a"), volumeOf("a")},
			"c Pending; v Available", chosen,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *testCluster) {
				w.start()
				w.create(tc.there...)
				w.expect(tc.state)
				tc.then(w)
				w.expect("c Bound v; v Bound c")
			})
		})
	}
}
