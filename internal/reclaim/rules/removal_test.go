package reclaim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// H-18: what this process did to a PersistentVolume, and whether a view of it asks for more.
func TestRemovalFinishes(t *testing.T) {
	view := func(version string, deleting, protected bool) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: version}}
		if deleting {
			pv.DeletionTimestamp = &metav1.Time{}
		}
		if protected {
			pv.Finalizers = []string{names.FinalizerVolume}
		}
		return pv
	}
	for row, tc := range map[string]struct {
		did  Removal
		view *corev1.PersistentVolume
		want bool
	}{
		"a fresh process":                           {Removal{}, view("5", true, true), false},
		"removed, and the view is from before":      {Removal{UID: "u", Version: "7"}, view("5", true, true), true},
		"removed, and the finalizer came later":     {Removal{UID: "u", Version: "7"}, view("9", true, true), false},
		"removed, no answer yet":                    {Removal{UID: "u"}, view("9", true, true), true},
		"our finalizer removed, not terminating":    {Removal{UID: "u", Version: "7"}, view("5", false, true), false},
		"deleted":                                   {Removal{UID: "u", Deleted: true}, view("5", false, true), true},
		"another object of the name":                {Removal{UID: "other", Deleted: true}, view("5", true, true), false},
		"unsure, and the view has the finalizer":    {Removal{UID: "u", Unsure: true}, view("5", true, true), false},
		"unsure, and the view shows it is all done": {Removal{UID: "u", Unsure: true}, view("8", true, false), true},
	} {
		if got := tc.did.Finishes(tc.view); got != tc.want {
			t.Errorf("%s: %t", row, got)
		}
	}
}
