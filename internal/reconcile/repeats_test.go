package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/verdict"
)

// living is a task whose object and verdict differ from run to run.
type living struct {
	script
	run    int
	next   func(run int) v
	object func(run int) *corev1.PersistentVolumeClaim
}

func (l *living) Decide(int, time.Time) v { return l.next(l.run) }
func (l *living) About(string, int) About {
	l.run++
	return About{Object: l.object(l.run)}
}

func newLiving(l *living) (*Loop[string, int, string], *events) {
	loop, told := newLoop(&l.script)
	loop.Task = l
	return loop, told
}

func claimOf(uid string, change int) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name, claim.UID = "n", "a", types.UID(uid)
	claim.ResourceVersion = fmt.Sprint(change)
	claim.CreationTimestamp = metav1.Unix(int64(change), 0)
	return claim
}

func bound(did string) v {
	return verdict.Do[string]{
		Finding: finding(verdict.Provisioning), Actions: []string{did}, Then: verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)},
	}
}

// I5: what is done again and again with an object that stays as it is waits longer each time, and an
// event says so.
func TestRepeatsSlowDown(t *testing.T) {
	same := func(run int) *corev1.PersistentVolumeClaim { return claimOf("1", run) }
	task := &living{next: func(int) v { return bound("a") }, object: same}
	l, told := newLiving(task)
	clock := l.Clock.(*clocktesting.FakeClock)
	runs := func(n int) (last time.Duration) {
		for range n {
			result, err := l.Reconcile(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			last = result.RequeueAfter
		}
		return last
	}
	if rest := runs(100); len(task.done) != fewRepeats+1 || rest != time.Second {
		t.Fatalf("acted %d times, and then rests %s", len(task.done), rest)
	}
	for _, rest := range []time.Duration{2 * time.Second, 4 * time.Second, 4 * time.Second} {
		clock.Step(5 * time.Second)
		if got := runs(2); got != rest {
			t.Errorf("rests %s, want %s", got, rest)
		}
	}
	said := 0
	for _, e := range *told {
		if strings.HasPrefix(e, "Warning HotLoopThrottled 5 runs in a row of the controller test did the same") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("said %d times:\n%s", said, strings.Join(*told, "\n"))
	}
	task.object = func(run int) *corev1.PersistentVolumeClaim { return claimOf("2", run) } // the user's change
	before := len(task.done)
	if rest := runs(1); rest != 0 || len(task.done) != before+1 {
		t.Errorf("a changed object rests %s", rest)
	}
}

// inTurns is one of several verdicts that differ in their kinds.
func inTurns(n int) v {
	reason := []verdict.Reason{verdict.Provisioning, verdict.DetachRequested, verdict.AttachUnderWay, verdict.ClaimUseTracked}[n]
	return verdict.Do[string]{
		Finding: finding(reason), Actions: []string{fmt.Sprint(n)}, Then: verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)},
	}
}

// I5: actions that undo each other in turns are delayed as one that is repeated.
func TestCyclesSlowDown(t *testing.T) {
	for name, tc := range map[string]struct {
		next    func(run int) v
		acted   int
		message string
	}{
		"one":                      {func(int) v { return inTurns(0) }, fewRepeats + 1, "5 runs in a row of the controller test did the same and"},
		"two in turns":             {func(run int) v { return inTurns(run % 2) }, 2*fewRepeats + 3, "10 runs in a row of the controller test did the same things in turns"},
		"three in turns":           {func(run int) v { return inTurns(run % 3) }, 3*fewRepeats + 5, "15 runs in a row of the controller test did the same things in turns"},
		"one twice, and the other": {func(run int) v { return inTurns(run % 3 / 2) }, 2*fewRepeats + 3, "10 runs in a row of the controller test did the same things in turns"},
		"alike, with two contents in turns": {
			func(run int) v { return bound(fmt.Sprint(run % 2)) }, 2*fewRepeats + 2, "10 runs in a row of the controller test did the same things in turns",
		},
	} {
		t.Run(name, func(t *testing.T) {
			task := &living{next: tc.next, object: func(run int) *corev1.PersistentVolumeClaim { return claimOf("1", run) }}
			l, told := newLiving(task)
			for n := range 100 {
				result, err := l.Reconcile(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				if result.RequeueAfter > 0 { // an event of a watch comes in between, and nothing is done
					if len(task.done) != tc.acted || result.RequeueAfter != time.Second {
						t.Fatalf("acted %d times, and then rests %s in run %d", len(task.done), result.RequeueAfter, n)
					}
					break
				}
			}
			if text := strings.Join(*told, "\n"); !strings.Contains(text, "HotLoopThrottled "+tc.message) {
				t.Errorf("told:\n%s", text)
			}
			task.object = func(run int) *corev1.PersistentVolumeClaim { return claimOf("2", run) } // the user's change
			before := len(task.done)
			if result, err := l.Reconcile(t.Context(), "k"); err != nil || result.RequeueAfter != 0 || len(task.done) != before+1 {
				t.Errorf("a changed object rests %s, %v", result.RequeueAfter, err)
			}
		})
	}
}

// What looks alike and is not the same is not delayed.
func TestNormalRunsAreNotDelayed(t *testing.T) {
	for name, task := range map[string]*living{
		"claims of one name, one after the other": {
			next:   func(int) v { return bound("a") },
			object: func(run int) *corev1.PersistentVolumeClaim { return claimOf(fmt.Sprint(run), run) },
		},
		"attached and detached in turns": {
			next: func(run int) v {
				if run%2 == 0 {
					return bound("attach")
				}
				return verdict.Do[string]{
					Finding: finding(verdict.DetachRequested), Actions: []string{"detach"},
					Then: verdict.Nothing[string]{Finding: finding(verdict.AttachNotNeeded)},
				}
			},
			object: func(run int) *corev1.PersistentVolumeClaim { return claimOf(fmt.Sprint(run/2), run) },
		},
		"four actions in turns": {
			next:   func(run int) v { return inTurns(run % 4) },
			object: func(run int) *corev1.PersistentVolumeClaim { return claimOf("1", run) },
		},
		"other actions": {
			next:   func(run int) v { return bound(fmt.Sprint(run)) },
			object: func(run int) *corev1.PersistentVolumeClaim { return claimOf("1", run) },
		},
		"nothing to do": {
			next:   func(int) v { return verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)} },
			object: func(run int) *corev1.PersistentVolumeClaim { return claimOf("1", run) },
		},
		"polls": {
			next: func(run int) v {
				return verdict.Do[string]{
					Finding: finding(verdict.ContentPolled), Actions: []string{"ask"},
					Then: verdict.Wait[string]{Finding: finding(verdict.ContentPolled), Until: time.Unix(100+int64(run)*2, 0)},
				}
			},
			object: func(run int) *corev1.PersistentVolumeClaim { return claimOf("1", run) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newLiving(task)
			for range 500 {
				result, err := l.Reconcile(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				l.Clock.(*clocktesting.FakeClock).Step(result.RequeueAfter)
			}
			if !strings.HasPrefix(name, "nothing") && len(task.done) != 500 {
				t.Errorf("acted %d times", len(task.done))
			}
		})
	}
}

// A run whose first action changes the object and whose second one fails is enqueued by the event of the
// change, before its retry is due. One that begins when its retry is due is no repetition.
func TestFailedRunsSlowDown(t *testing.T) {
	for name, tc := range map[string]struct {
		early bool
		acted int
	}{
		"enqueued by an event":  {early: true, acted: fewRepeats + 1},
		"when the retry is due": {acted: 50},
	} {
		t.Run(name, func(t *testing.T) {
			task := &living{
				script: script{errs: map[string]error{"b": errors.New("conflict")}},
				next: func(int) v {
					return verdict.Do[string]{Finding: finding(verdict.VolumeReclaim), Actions: []string{"a", "b"}}
				},
				object: func(run int) *corev1.PersistentVolumeClaim { return claimOf("1", run) },
			}
			l, _ := newLiving(task)
			for range 50 {
				result, err := l.Reconcile(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				if !tc.early {
					l.Clock.(*clocktesting.FakeClock).Step(result.RequeueAfter)
				}
			}
			if len(task.done) != 2*tc.acted {
				t.Errorf("acted %d times, want %d", len(task.done)/2, tc.acted)
			}
		})
	}
}

// The digest of a message is that of its fields: not of what protobuf keeps in it from its first use on.
func TestDigestOfMessage(t *testing.T) {
	message := func(name string) *csi.CreateVolumeRequest { return &csi.CreateVolumeRequest{Name: name} }
	used := message("a")
	if proto.Size(used) == 0 {
		t.Fatal("the message is empty")
	}
	if digestOf(used) != digestOf(message("a")) {
		t.Error("a message that was used has another digest")
	}
	if digestOf(used) == digestOf(message("b")) {
		t.Error("another message has the same digest")
	}
}

// Many keys that act once are no loop.
func TestRepeatsOfManyKeys(t *testing.T) {
	task := &living{next: func(int) v { return bound("a") }, object: func(int) *corev1.PersistentVolumeClaim { return claimOf("1", 1) }}
	l, _ := newLiving(task)
	for key := range 2 * repeatKeys {
		if _, err := l.Reconcile(t.Context(), fmt.Sprint(key)); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.repeats.m) > repeatKeys || len(task.done) != 2*repeatKeys {
		t.Errorf("%d keys remembered, acted %d times", len(l.repeats.m), len(task.done))
	}
	l.Clock.(*clocktesting.FakeClock).Step(time.Hour)
	if _, err := l.Reconcile(t.Context(), "one more"); err != nil || len(l.repeats.m) != 1 {
		t.Errorf("%d keys remembered an hour later, %v", len(l.repeats.m), err)
	}
}
