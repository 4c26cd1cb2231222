package provision

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
)

// seer is a journal that notes what is expected.
type seer struct {
	Journal
	expected []types.UID
}

func (s *seer) Expect(e intent.Entry) { s.expected = append(s.expected, e.UID) }

func (s *seer) Unexpect(claim types.UID) {
	s.expected = slices.DeleteFunc(s.expected, func(uid types.UID) bool { return uid == claim })
}

// H-1: a claim of our class is expected to ask, until it does, has a volume, goes, or asks somebody
// else.
func TestWhatIsExpected(t *testing.T) {
	nobody := func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }
	for name, tc := range map[string]struct {
		then func(h toolscache.ResourceEventHandler, claim *corev1.PersistentVolumeClaim)
		want bool
	}{
		"it is made": {func(toolscache.ResourceEventHandler, *corev1.PersistentVolumeClaim) {}, true},
		"it is asked": {updated(func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{names.AnnStorageProvisioner: driverName}
		}), true},
		"it is asked of another": {updated(func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{names.AnnStorageProvisioner: "other"}
		}), false},
		"it has a volume":    {updated(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }), false},
		"it has a label":     {updated(func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} }), true},
		"it is on its way":   {updated(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) }), false},
		"its class is gone":  {updated(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("gone") }), false},
		"C-94 it is another": {updated(func(c *corev1.PersistentVolumeClaim) { c.UID, c.Spec.VolumeName = "v", "pv" }), false},
		"it is gone":         {func(h toolscache.ResourceEventHandler, c *corev1.PersistentVolumeClaim) { h.OnDelete(c) }, false},
		"it was gone": {func(h toolscache.ResourceEventHandler, c *corev1.PersistentVolumeClaim) {
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: c})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			seen := &seer{Journal: r.Journal}
			r.Journal = seen
			claim := r.claim(t)
			nobody(claim)
			h := r.expecting(t.Context())
			h.OnAdd(claim, false)
			if !slices.Contains(seen.expected, "u") {
				t.Fatal("nothing is expected of a new claim")
			}
			tc.then(h, claim)
			if got := len(seen.expected) > 0; got != tc.want {
				t.Errorf("expected: %v", seen.expected)
			}
		})
	}
}

func updated(edit func(*corev1.PersistentVolumeClaim)) func(toolscache.ResourceEventHandler, *corev1.PersistentVolumeClaim) {
	return func(h toolscache.ResourceEventHandler, was *corev1.PersistentVolumeClaim) {
		is := was.DeepCopy()
		edit(is)
		h.OnUpdate(was, is)
	}
}
