package reconcile

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/verdict"
)

// named notes the events by the name of their object.
type named struct{ events []string }

func (n *named) Event(o runtime.Object, kind, _, message string) {
	n.events = append(n.events, o.(*corev1.PersistentVolume).Name+" "+kind+" "+message)
}

// 1.4: each object has events of its own; one that repeats the last is emitted after a while, and at
// once when the object was in another state meanwhile.
func TestTellerRepeatsLate(t *testing.T) {
	mismatch := verdict.Finding{Reason: verdict.VolumeUnfit, Message: "m"}
	waits := func(reason verdict.Reason) verdict.Finding { return verdict.Finding{Reason: reason, Message: "w"} }
	for name, tc := range map[string]struct {
		again func(t *Teller, o *corev1.PersistentVolume, clock *clocktesting.FakePassiveClock)
		want  []string
	}{
		"at once": {func(*Teller, *corev1.PersistentVolume, *clocktesting.FakePassiveClock) {}, nil},
		"after a while": {func(_ *Teller, _ *corev1.PersistentVolume, clock *clocktesting.FakePassiveClock) {
			clock.SetTime(clock.Now().Add(TellAgain))
		}, []string{"a Warning m", "a Normal w"}},
		"when it was forgotten": {func(t *Teller, o *corev1.PersistentVolume, _ *clocktesting.FakePassiveClock) {
			t.Forget(o.UID)
		}, []string{"a Warning m", "a Normal w"}},
		"when it waited for something else": {func(t *Teller, o *corev1.PersistentVolume, _ *clocktesting.FakePassiveClock) {
			t.TellWaiting(o, o.UID, waits(verdict.WaitForPodScheduled))
		}, []string{"a Normal w", "a Normal w"}},
	} {
		t.Run(name, func(t *testing.T) {
			events, clock := &named{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			teller := NewTeller(events, clock)
			volume := func(name string) *corev1.PersistentVolume {
				return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
			}
			tell := func(o *corev1.PersistentVolume) {
				teller.Tell(o, o.UID, mismatch)
				teller.TellWaiting(o, o.UID, waits(verdict.WaitForFirstConsumer))
			}
			tell(volume("a"))
			tell(volume("b"))
			tc.again(teller, volume("a"), clock)
			tell(volume("a"))
			want := append([]string{"a Warning m", "a Normal w", "b Warning m", "b Normal w"}, tc.want...)
			if !slices.Equal(events.events, want) {
				t.Errorf("emitted %q, want %q", events.events, want)
			}
		})
	}
}

// 4.4, 4.8: a notice is emitted once for a state of its topic. It is repeated where that is asked for.
func TestNotices(t *testing.T) {
	const minute = time.Minute
	attached := Notice{Topic: "disk", State: "attached", Message: "attached"}
	failed := Notice{Topic: "disk", State: "failed", Message: "failed", Again: 5 * minute}
	other := Notice{Topic: "other", State: "attached", Message: "other"}
	for name, tc := range map[string]struct {
		notices []Notice
		each    time.Duration // between two of them
		forget  bool          // before the last one
		want    []string
	}{
		"the same state":           {[]Notice{attached, attached}, 0, false, []string{"attached"}},
		"the same state, next day": {[]Notice{attached, other, attached}, 24 * time.Hour, false, []string{"attached", "other"}},
		"two topics in turn":       {[]Notice{attached, other, attached, other}, 0, false, []string{"attached", "other"}},
		"another state":            {[]Notice{attached, failed, attached}, 0, false, []string{"attached", "failed", "attached"}},
		"a failure too early":      {[]Notice{failed, failed}, 4 * minute, false, []string{"failed"}},
		"a failure that lasts":     {[]Notice{failed, failed}, 5 * minute, false, []string{"failed", "failed"}},
		"the object is made again": {[]Notice{attached, attached}, 0, true, []string{"attached", "attached"}},
	} {
		t.Run(name, func(t *testing.T) {
			events, clock := &named{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			teller := NewTeller(events, clock)
			object := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}
			for i, n := range tc.notices {
				if tc.forget && i == len(tc.notices)-1 {
					teller.Forget(object.UID)
				}
				n.Type = corev1.EventTypeNormal
				teller.Notify(object, object.UID, n)
				clock.SetTime(clock.Now().Add(tc.each))
			}
			var want []string
			for _, message := range tc.want {
				want = append(want, "a Normal "+message)
			}
			if !slices.Equal(events.events, want) {
				t.Errorf("emitted %q, want %q", events.events, want)
			}
		})
	}
}

// precise notes the reasons of decisions beside those of the events.
type precise struct{ named }

func (p *precise) EventOf(decided string, o runtime.Object, kind, reason, message string) {
	p.Event(o, kind, reason, decided+" as "+reason+": "+message)
}

// A recorder that can store the reason of a decision gets it, also that of a notice.
func TestTellerTellsTheDecision(t *testing.T) {
	events := &precise{}
	teller := NewTeller(events, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	o := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}
	teller.Tell(o, o.UID, verdict.Finding{Reason: verdict.DeletionHeldUp, Message: "m"})
	teller.Notify(o, o.UID, Notice{
		Type: "Warning", Reason: "VolumeConditionAbnormal", Decided: verdict.VolumeHealthFlapping, Message: "m", Topic: "health",
	})
	teller.Notify(o, o.UID, Notice{Type: "Warning", Reason: "FailedAttachVolume", Message: "m", Topic: "attach"})
	want := []string{
		"a Warning DeletionHeldUp as VolumeFailedDelete: m",
		"a Warning VolumeHealthFlapping as VolumeConditionAbnormal: m",
		"a Warning FailedAttachVolume as FailedAttachVolume: m",
	}
	if !slices.Equal(events.events, want) {
		t.Errorf("emitted %q, want %q", events.events, want)
	}
}
