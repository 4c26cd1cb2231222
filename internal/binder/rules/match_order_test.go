package binding

import (
	"fmt"
	"math/bits"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

var allModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod,
}

func someModes(t *rapid.T) []corev1.PersistentVolumeAccessMode {
	set := rapid.IntRange(1, 15).Draw(t, "modes")
	var some []corev1.PersistentVolumeAccessMode
	for i, mode := range allModes {
		if set&(1<<i) != 0 {
			some = append(some, mode)
		}
	}
	return some
}

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func someVolume(t *rapid.T, name string) *pv {
	return &pv{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(int64(rapid.IntRange(0, 2).Draw(t, "created")), 0),
			Labels: map[string]string{"tier": pick(t, "label", "a", "b")},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity(int64(rapid.IntRange(0, 4).Draw(t, "size")), resource.BinarySI),
			},
			AccessModes: someModes(t), StorageClassName: pick(t, "class", "", "x"),
			VolumeMode: pick(t, "mode", nil, new(corev1.PersistentVolumeFilesystem),
				new(corev1.PersistentVolumeBlock)),
			VolumeAttributesClassName: pick(t, "attributes", nil, new(""), new("fast")),
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func someClaim(t *rapid.T, name string) *pvc {
	return &pvc{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name,
			CreationTimestamp: metav1.Unix(int64(rapid.IntRange(0, 2).Draw(t, "created")), 0),
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity(int64(rapid.IntRange(0, 4).Draw(t, "size")), resource.BinarySI),
			}},
			AccessModes: someModes(t), StorageClassName: pick(t, "class", nil, new(""), new("x")),
			VolumeMode: pick(t, "mode", nil, new(corev1.PersistentVolumeFilesystem),
				new(corev1.PersistentVolumeBlock)),
			VolumeAttributesClassName: pick(t, "attributes", nil, new(""), new("fast")),
			Selector: pick(t, "selector", nil, nil,
				&metav1.LabelSelector{MatchLabels: map[string]string{"tier": "a"}}),
		},
	}
}

// bestVolume looks at all of them.
func bestVolume(volumes map[string]*pv, c *pvc) string {
	var best *pv
	for _, v := range volumes {
		if Suits(v, c) && (best == nil || volumeRank(v) < volumeRank(best)) {
			best = v
		}
	}
	if best == nil {
		return ""
	}
	return best.Name
}

func volumeRank(v *pv) string {
	return fmt.Sprintf("%d %020d %020d %s", len(v.Spec.AccessModes), bytesOf(v.Spec.Capacity), v.CreationTimestamp.Unix(),
		v.Name)
}

func bestClaim(claims map[string]*pvc, v *pv) (best *pvc) {
	for _, c := range claims {
		if Suits(v, c) && (best == nil || claimRank(c) < claimRank(best)) {
			best = c
		}
	}
	return best
}

func claimRank(c *pvc) string {
	return fmt.Sprintf("%020d %020d %s", 100-bytesOf(c.Spec.Resources.Requests), c.CreationTimestamp.Unix(), c.Name)
}

// 1.9: after any history the index finds what a look at everything finds.
func TestIndexAgainstALookAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := NewIndex()
		volumes, claims := map[string]*pv{}, map[string]*pvc{}
		name := func(kind string) string { return fmt.Sprint(kind, rapid.IntRange(0, 12).Draw(t, "n")) }
		t.Repeat(map[string]func(*rapid.T){
			"offer":    func(t *rapid.T) { v := someVolume(t, name("v")); volumes[v.Name] = v; x.Offer(v) },
			"withdraw": func(*rapid.T) { n := name("v"); delete(volumes, n); x.Withdraw(n) },
			"await":    func(t *rapid.T) { c := someClaim(t, name("c")); claims[c.Name] = c; x.Await(c) },
			"forget": func(*rapid.T) {
				n := name("c")
				delete(claims, n)
				x.Forget(types.NamespacedName{Namespace: "ns", Name: n})
			},
			"claim": func(t *rapid.T) {
				c := someClaim(t, "asks")
				if got, want := x.BestVolume(c), bestVolume(volumes, c); got != want {
					t.Fatalf("the best volume is %q, want %q", got, want)
				}
			},
			"volume": func(t *rapid.T) {
				v := someVolume(t, "asks")
				got, ok := x.BestClaim(v)
				want := bestClaim(claims, v)
				if ok != (want != nil) || ok && got.Name != want.Name {
					t.Fatalf("the best claim is %q, %v, want %v", got, ok, want)
				}
			},
		})
		if x.Waiting() != len(claims) {
			t.Fatalf("%d wait, want %d", x.Waiting(), len(claims))
		}
	})
}

// An index that everything was taken out of is as new: classes come and go.
func TestIndexKeepsNothing(t *testing.T) {
	x := NewIndex()
	for i := range 100 {
		v := aVolume(named(fmt.Sprint(i)), volumeClass(fmt.Sprint("class", i)))
		x.Offer(v)
		x.Withdraw(v.Name)
		c := claim(className(fmt.Sprint("class", i)))
		x.Await(c)
		x.Forget(types.NamespacedName{Namespace: "ns", Name: "c"})
	}
	if len(x.shelves)+len(x.volumes)+len(x.claims) != 0 {
		t.Errorf("%d shelves, %d volumes, %d claims are left", len(x.shelves), len(x.volumes), len(x.claims))
	}
}

// BenchmarkBestVolume is the cost of one question among many volumes, half of which are too small.
func BenchmarkBestVolume(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := NewIndex()
			for i := range n {
				x.Offer(aVolume(named(fmt.Sprint("v", i)), func(v *pv) {
					v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(i), resource.BinarySI)}
					v.Spec.AccessModes = allModes[:bits.Len(uint(i%15))]
				}))
			}
			c := claim(func(c *pvc) {
				c.Spec.Resources.Requests = corev1.ResourceList{
					corev1.ResourceStorage: *resource.NewQuantity(int64(n/2), resource.BinarySI),
				}
			})
			for b.Loop() {
				if x.BestVolume(c) == "" {
					b.Fatal("none")
				}
			}
		})
	}
}

func bytesOf(of corev1.ResourceList) int64 { return of.Storage().Value() }

// A claim of more than 63 bits fits no volume of less, although its Quantity.Value is 0; a volume of
// as much fits it.
func TestSizesBeyondAnInt64(t *testing.T) {
	of := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
	}
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		Resources: corev1.VolumeResourceRequirements{Requests: of("20E")},
	}}
	for _, tc := range []struct {
		volume string
		fits   bool
	}{{"1Gi", false}, {"7Ei", false}, {"20E", true}, {"21E", true}} {
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{Capacity: of(tc.volume)},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
		}
		index := NewIndex()
		index.Offer(pv)
		index.Await(claim)
		_, found := index.BestClaim(pv)
		if fits(pv, claim) == "" != tc.fits || (index.BestVolume(claim) != "") != tc.fits || found != tc.fits {
			t.Errorf("%s: fits %q, best %q, found %t", tc.volume, fits(pv, claim), index.BestVolume(claim), found)
		}
	}
}
