package objects

import (
	"testing"

	"github.com/purser-csi/purser/internal/core/names"
)

// D-20: managed fields are cleared with the last finalizer that another owner could have applied.
func TestIsLastFinalizer(t *testing.T) {
	const ours, protection, other = names.FinalizerVolume, names.FinalizerPVProtection, "external-attacher/d"
	for _, tc := range []struct {
		finalizers, removed []string
		want                bool
	}{
		{nil, []string{ours}, true},
		{[]string{ours}, []string{ours}, true},
		{[]string{ours, protection}, []string{ours}, true},
		{[]string{ours, protection}, []string{ours, protection}, true},
		{[]string{ours, other}, []string{ours}, false},
		{[]string{other}, []string{ours}, false},
		{[]string{ours, protection}, []string{protection}, false},
	} {
		if got := IsLastFinalizer(tc.finalizers, tc.removed...); got != tc.want {
			t.Errorf("%v without %v: %t", tc.finalizers, tc.removed, got)
		}
	}
}
