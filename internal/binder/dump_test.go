package binder

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/kube"

	"github.com/purser-csi/purser/internal/names"
)

// The store and a dump of the same objects give the same snapshots, whatever the claim is like.
func TestObjectStoreAndDump(t *testing.T) {
	late := dynamicClass("late")
	late.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
	standard := dynamicClass("standard")
	standard.Annotations = map[string]string{names.AnnDefaultStorageClass: "true"}
	naming := func(claim string, uid types.UID) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: claim, UID: uid}
		}
	}
	chooses := func(volume string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
	}
	classless := func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }
	ended := podUsing("ended", "waits")
	ended.Status.Phase = corev1.PodSucceeded
	objects := []client.Object{
		late, standard, staticClass("a"),
		seen(liveClaim("static", "a"), "1", "1"), seen(liveClaim("reserved", "a"), "2", "2"), seen(liveClaim("waits", "late"), "3", "3"),
		seen(liveClaim("chooses", "a"), "4", "4", chooses("chosen")), seen(liveClaim("lost", "a"), "5", "5", chooses("absent")),
		seen(liveClaim("classless", "a"), "6", "6", classless), seen(liveClaim("selects", "a"), "7", "7", selectsGold),
		seen(liveVolume("v2", "a"), "v2", "12"), seen(liveVolume("v1", "a"), "v1", "11"), seen(liveVolume("other", "b"), "v3", "13"),
		seen(liveVolume("kept", "a"), "v4", "14", naming("reserved", "")), seen(liveVolume("former", "a"), "v5", "15", naming("static", "old")),
		seen(liveVolume("chosen", "a"), "v6", "16"), seen(liveVolume("orphan", "a"), "v7", "17", naming("absent", "gone")),
		podUsing("p", "waits"), podUsing("q", "waits"), ended,
	}
	reader, err := kube.NewDump(kube.Scheme(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	if err := kube.AddIndexes(t.Context(), reader, Indexes()...); err != nil {
		t.Fatal(err)
	}
	l, keys := newObjectStore(), map[binding.Key]bool{{Claim: types.NamespacedName{Namespace: "default", Name: "absent"}}: true}
	for _, o := range objects {
		switch o := o.(type) {
		case *storagev1.StorageClass:
			l.classSeen(o.Name, o)
		case *corev1.PersistentVolumeClaim:
			l.claimSeen(keyOf(o), o, o)
			keys[binding.Key{Claim: keyOf(o)}] = true
		case *corev1.PersistentVolume:
			l.volumeSeen(o.Name, o, o)
			keys[binding.KeyOf(o)] = true
		case *corev1.Pod:
			l.podSeen(client.ObjectKeyFromObject(o), o)
		}
	}
	inOrder := []gocmp.Option{
		cmpopts.SortSlices(func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) }),
		cmpopts.SortSlices(func(a, b binding.Consumer) int { return cmp.Compare(a.Pod, b.Pod) }), cmpopts.EquateEmpty(),
	}
	var offered []string
	for key := range keys {
		dumped, err := Gather(t.Context(), reader, key, Memory{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first gather changes nothing that the second one sees
			if diff := gocmp.Diff(dumped, l.gather(key, answers{}), inOrder...); diff != "" {
				t.Errorf("%s: -dump +objectStore\n%s", key, diff)
			}
		}
		if dumped.Offer != nil {
			offered = append(offered, key.String()+" "+dumped.Offer.Name)
		}
	}
	if slices.Sort(offered); !slices.Equal(offered, []string{"default/static chosen"}) {
		t.Errorf("offered %v", offered)
	}
}
