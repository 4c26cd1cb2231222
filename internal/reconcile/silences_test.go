package reconcile

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/verdict"
)

// waiter is a task that waits; users may see another object than the one that it is about.
type waiter struct {
	script
	about About
}

func (w *waiter) About(string, int) About { return w.about }

// A wait without an event is said after a minute, once, and again while it goes on.
func TestLongWaitIsSaid(t *testing.T) {
	wait := func(r verdict.Reason) v { return verdict.Wait[string]{Finding: finding(r)} }
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	for name, tc := range map[string]struct {
		decide v
		about  About
		said   int
		event  string
	}{
		"silent":    {wait(verdict.VolumeAwaited), About{Object: claim}, 2, "Normal VolumeAwaited Goes on for more than a minute: VolumeAwaited. "},
		"told":      {wait(verdict.NoVolumeAndNoClass), About{Object: claim}, 0, ""},
		"normal":    {wait(verdict.WaitForConsumer), About{Object: claim}, 0, ""},
		"unseen":    {wait(verdict.VolumeAwaited), About{}, 0, ""},
		"not owned": {wait(verdict.VolumeAttached), About{Object: volume, Users: []runtime.Object{claim}}, 2, "Normal VolumeDelete Goes on for more than a minute: "},
		"done":      {verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)}, About{Object: claim}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			task := &waiter{script{decide: tc.decide}, tc.about}
			l, told := newLoop(&task.script)
			l.Task = task
			clock := l.Clock.(*clocktesting.FakeClock)
			begin := clock.Now()
			said := 0
			for clock.Since(begin) <= TellAgain+2*sayAfter {
				*told = nil
				result, err := l.Reconcile(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range *told {
					if tc.event != "" && len(e) >= len(tc.event) && e[:len(tc.event)] == tc.event {
						said++
					}
				}
				if tc.said == 0 && (result.RequeueAfter != 0 || len(l.silences.m) != 0) {
					t.Fatalf("runs again after %s", result.RequeueAfter)
				}
				if result.RequeueAfter == 0 {
					break
				}
				clock.Step(result.RequeueAfter)
			}
			if said != tc.said {
				t.Errorf("said %d times, want %d", said, tc.said)
			}
		})
	}
}

// A wait that ends within the minute costs no event, and neither does one whose reason changes.
func TestShortWaitIsNotSaid(t *testing.T) {
	task := &waiter{script{}, About{Object: &corev1.PersistentVolumeClaim{}}}
	l, told := newLoop(&task.script)
	l.Task = task
	clock := l.Clock.(*clocktesting.FakeClock)
	for i, decide := range []v{
		verdict.Wait[string]{Finding: finding(verdict.VolumeAwaited)},
		verdict.Wait[string]{Finding: finding(verdict.AttachUnderWay)},
		verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)},
		verdict.Wait[string]{Finding: finding(verdict.AttachUnderWay)},
	} {
		task.decide = decide
		if _, err := l.Reconcile(t.Context(), "k"); err != nil || len(*told) > 0 {
			t.Errorf("run %d: told %q, %v", i, *told, err)
		}
		clock.Step(sayAfter - time.Second)
	}
}

// Thousands of objects that wait for the same get their events one after the other.
func TestLongWaitsAreSaidAtABoundedRate(t *testing.T) {
	task := &waiter{script{decide: verdict.Wait[string]{Finding: finding(verdict.VolumeAwaited)}}, About{Object: &corev1.PersistentVolumeClaim{}}}
	l, told := newLoop(&task.script)
	l.Task = task
	clock := l.Clock.(*clocktesting.FakeClock)
	const keys = 5000
	due := make([]time.Time, keys)
	runs := 0
	for seconds := 0; len(*told) < keys; seconds++ {
		before := len(*told)
		for key := range due {
			if clock.Now().Before(due[key]) {
				continue
			}
			runs++
			result, err := l.Reconcile(t.Context(), fmt.Sprint(key))
			if err != nil {
				t.Fatal(err)
			}
			due[key] = clock.Now().Add(result.RequeueAfter)
		}
		if said := len(*told) - before; said > int(time.Second/sayEvery)+1 {
			t.Fatalf("%d events in a second", said)
		}
		if seconds > 1000 {
			t.Fatalf("%d events in %d seconds", len(*told), seconds)
		}
		clock.Step(time.Second)
	}
	if runs > 3*keys {
		t.Errorf("%d runs for %d keys", runs, keys)
	}
}
