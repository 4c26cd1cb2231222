package attachment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

func csi(s *Snapshot) { s.Volumes[0].Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver} }

// 4.8, 4.12: what the metrics say of a volume.
func TestMeasure(t *testing.T) {
	waiting := func(reason verdict.Reason, since time.Duration) []WaitingDetach {
		return []WaitingDetach{{Node: "a", Reason: reason, Since: start.Add(-since)}}
	}
	ago := unwanted("a", time.Minute)
	for row, tc := range map[string]struct {
		s    Snapshot
		want Measured
	}{
		"nothing":             {world(csi), Measured{}},
		"wanted":              {world(csi, pod("a")), Measured{InUse: map[string]int{"a": 1}, Desired: 1, Awaited: []string{"a"}}},
		"attached":            {world(csi, pod("a"), va("a", attached)), Measured{InUse: map[string]int{"a": 1}, Desired: 1, Actual: 1, Awaited: []string{"a"}}},
		"listed":              {world(csi, pod("a"), pod("a"), va("a", attached), listed("a")), Measured{InUse: map[string]int{"a": 2}, Desired: 1, Actual: 1}},
		"a pod ended":         {world(csi, pod("a", phase(corev1.PodSucceeded))), Measured{InUse: map[string]int{"a": 1}}},
		"unmount":             {world(csi, va("a", attached), inUse("a"), ago), Measured{Actual: 1, Waiting: waiting(verdict.DetachAwaitsUnmount, time.Minute)}},
		"the attacher":        {world(csi, va("a", attached, vaDeleting), ago), Measured{Actual: 1, Waiting: waiting(verdict.Detaching, time.Minute)}},
		"foreign":             {world(csi, va("a", attached, renamed), ago), Measured{Waiting: waiting(verdict.AttachmentForeign, time.Minute)}},
		"about to be deleted": {world(csi, va("a", attached), ago), Measured{Actual: 1}},
		"conflict": {
			world(csi, pod("b"), va("a", attached), listed("a"), inUse("a"), ago),
			Measured{
				InUse: map[string]int{"b": 1}, Desired: 1, Actual: 1, Awaited: []string{"b"}, Conflicts: 1,
				Waiting: waiting(verdict.DetachAwaitsUnmount, time.Minute),
			},
		},
	} {
		got := Measure(tc.s, start)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s:\n%s", row, diff)
		}
		if got.IsEmpty() != (row == "nothing") {
			t.Errorf("%s: empty %t", row, got.IsEmpty())
		}
	}
	if world(csi).IsMigrated() || !world().IsMigrated() || !world(csi, inline).IsMigrated() {
		t.Error("4.9: a volume that is not one of CSI, or that pods name in place, is migrated")
	}
}
