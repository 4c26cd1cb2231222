package binder

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/binding"
)

func seen[T corev1.PersistentVolume | corev1.PersistentVolumeClaim](o *T, uid types.UID, version string, edits ...func(*T)) *T {
	switch o := any(o).(type) {
	case *corev1.PersistentVolume:
		o.UID, o.ResourceVersion, o.Status.Phase = uid, version, corev1.VolumeAvailable
	case *corev1.PersistentVolumeClaim:
		o.UID, o.ResourceVersion = uid, version
	}
	for _, edit := range edits {
		edit(o)
	}
	return o
}

// C1: a volume that came for one claim is compared again with the claim that is there when it is taken, which may have taken the name
// of the first, or got a class since. Whom the volume suits instead is woken up for it.
func TestHeldForAnother(t *testing.T) {
	claim := types.NamespacedName{Namespace: "default", Name: "c"}
	key, other := binding.Key{Claim: claim}, binding.Key{Claim: types.NamespacedName{Namespace: "default", Name: "d"}}
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"larger": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("100Gi")
		},
		"of a class":    func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("b") },
		"of block mode": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
		"that selects":  func(c *corev1.PersistentVolumeClaim) { selecting(c) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			first, second := seen(liveClaim("c", "a"), "1", "1"), seen(liveClaim("c", "a"), "2", "3", change)
			l.claimSeen(claim, first, first)
			l.gather(key, answers{})
			l.claimSeen(claim, first, nil)
			l.claimSeen(claim, second, second)
			v := seen(liveVolume("v", "a"), "v", "4")
			if keys := l.volumeSeen("v", v, v); !slices.Contains(keys, key) {
				t.Fatalf("the volume wakes up %v", keys)
			}
			waiting := seen(liveClaim("d", "a"), "3", "5")
			l.claimSeen(other.Claim, waiting, waiting)
			l.gather(other, answers{})
			s, wake := l.gather(key, answers{})
			if s.Offer != nil || !slices.Equal(wake, []binding.Key{other}) {
				t.Errorf("offered %v, woken up %v", s.Offer, wake)
			}
			l.settle(claim)
			if s, _ := l.gather(other, answers{}); s.Offer != v {
				t.Errorf("offered to the other: %v", s.Offer)
			}
		})
	}
}

// A volume that changes while it is held is compared again, too.
func TestChangedWhileHeld(t *testing.T) {
	claim := types.NamespacedName{Namespace: "default", Name: "c"}
	l := newLedger()
	c, v := seen(liveClaim("c", "a"), "1", "1"), seen(liveVolume("v", "a"), "v", "2")
	l.claimSeen(claim, c, c)
	l.gather(binding.Key{Claim: claim}, answers{})
	l.volumeSeen("v", v, v)
	changed := seen(liveVolume("v", "b"), "v", "3")
	l.volumeSeen("v", changed, changed)
	if s, _ := l.gather(binding.Key{Claim: claim}, answers{}); s.Offer != nil {
		t.Errorf("offered %v", s.Offer)
	}
	if keys := l.settle(claim); len(keys) > 0 {
		t.Errorf("woken up %v", keys)
	}
}
