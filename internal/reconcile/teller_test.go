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

	"github.com/purser-csi/purser/internal/core/verdict"
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
