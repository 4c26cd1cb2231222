package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/names"
)

func TestPresentReport(t *testing.T) {
	p := present{
		role: roleProvisioner,
		none: footprint{memory: memory{now: 40 << 20}, live: 5 << 20},
		all:  footprint{memory: memory{now: 60 << 20, anonymous: 30 << 20, most: 90 << 20}, live: 5<<20 + 2600*1000},
	}
	report := strings.Join(strings.Fields(reportPresent([]present{p}, 1000)), " ")
	for _, want := range []string{"resident MB with 1000 60.0 <= 70.0 met", "its claim 2600 <= 2560 NOT MET"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}

func TestFailoverReport(t *testing.T) {
	at := time.UnixMilli
	h := handover{signalled: at(9), last: at(10), taken: at(3000), first: at(3040)}
	report := failover{killed: []handover{h, h}, asked: []handover{h}}.report()
	for _, want := range []string{"first PV of the next: 40, 40 ms (goal at most 1000 ms)", "to that one: 3030, 3030 ms", "from the lease to that one: 40 ms"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}

func TestMadeBy(t *testing.T) {
	for identity, want := range map[string]int{"1767225600000-4711-csi.my-driver": 4711, "": 0, "a-b-c": 0, "1-2": 0} {
		pv := &corev1.PersistentVolume{}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{VolumeAttributes: map[string]string{names.AttributeProvisionerIdentity: identity}}
		if got := madeBy(pv); got != want {
			t.Errorf("%q: %d, want %d", identity, got, want)
		}
	}
	if got := madeBy(&corev1.PersistentVolume{}); got != 0 {
		t.Errorf("no CSI: %d", got)
	}
}
