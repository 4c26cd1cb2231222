package claims

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

func TestPresentReport(t *testing.T) {
	p := present{
		role: roleProvisioner,
		none: footprint{Memory: runner.Memory{Now: 40 << 20}, live: 5 << 20},
		all:  footprint{Memory: runner.Memory{Now: 60 << 20, Anonymous: 30 << 20, Most: 90 << 20}, live: 5<<20 + 2600*1000},
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
	h := leaderChange{signalled: at(9), last: at(10), taken: at(3000), first: at(3040)}
	report := failover{killed: []leaderChange{h, h}, asked: []leaderChange{h}}.report()
	for _, want := range []string{"first PV of the next: 40, 40 ms (goal at most 1000 ms)", "to that one: 3030, 3030 ms", "from the lease to that one: 40 ms"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}

// The annotation of a volume names the process that created it.
func TestMakers(t *testing.T) {
	seen := makers{former: map[string]bool{}}
	for _, turn := range []struct {
		volumes   []string // by their makers
		warm      int
		now, next string
	}{
		{[]string{"", "1-a", "1-a"}, 2, "1-a", ""}, {[]string{"1-a", "2-b", "1-a"}, 2, "1-a", "2-b"}, {[]string{"1-a", "2-b", "2-b", "3-c"}, 2, "2-b", "3-c"},
	} {
		o := onlooker{makers: &seen} // without a holder: no process is ended
		for _, maker := range turn.volumes {
			pv := &corev1.PersistentVolume{}
			if maker != "" {
				pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{VolumeAttributes: map[string]string{names.AttributeProvisionerIdentity: maker}}
			}
			if err := o.sawVolume(pv); err != nil {
				t.Fatal(err)
			}
		}
		if o.warm != turn.warm || seen.now != turn.now || seen.next != turn.next || o.first.IsZero() != (turn.next == "") {
			t.Errorf("after %v: %d volumes of %q, then %q", turn.volumes, o.warm, seen.now, seen.next)
		}
		if seen.next != "" {
			seen.succeed()
		}
	}
}

// A trial that does not exist is an error before the measurement begins.
func TestCheck(t *testing.T) {
	for _, tc := range []struct{ trial, want string }{
		{"", ""}, {"delete", ""}, {"resize", "-trial=resize: no trial has this in its name, which are: dynamic"},
	} {
		c := &contest{claims: 1, load: load{workers: 1}, trial: tc.trial}
		if got := fmt.Sprint(c.check(runner.Options{})); !strings.HasPrefix(got, cmp.Or(tc.want, "<nil>")) {
			t.Errorf("-trial=%s: %q, want %q", tc.trial, got, tc.want)
		}
	}
}
