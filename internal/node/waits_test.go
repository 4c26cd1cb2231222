package node

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// A pod that waits for more than a minute gets an event that says for what, once in half an hour: the
// driver has not registered, or the volume is not attached.
func TestLongWaitIsSaidOnThePod(t *testing.T) {
	for name, tc := range map[string]struct {
		attach, registered bool
		reason, message    string
	}{
		"the driver":     {false, false, "MountDriverAwaited", "driver name d.test not found in the list of registered CSI drivers"},
		"the attachment": {true, true, "MountAttachAwaited", "status.volumesInUse of node n1 does not have it yet"},
		"nothing":        {false, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod, claim, pv := one("a")
			a, _ := newAgent(t, theNode(), csiDriver(tc.attach), pod, claim, pv)
			clock, events := clocktesting.NewFakeClock(time.Now()), record.NewFakeRecorder(1000)
			a.Clock, a.Events = clock, events
			a.Decided = telemetry.NewCounter(prometheus.NewRegistry(), telemetry.MetricDecisions)
			a.Backoff = reconcile.Backoff{First: time.Second, Most: time.Minute}
			if tc.registered {
				register(t, a, driverName)
			}
			volumes, pods := a.loop(), a.podLoop()
			if _, err := volumes.Reconcile(t.Context(), keyOf("a")); err != nil {
				t.Fatal(err)
			}
			var waits []string
			for began := clock.Now(); clock.Since(began) <= 40*time.Minute; {
				result, err := pods.Reconcile(t.Context(), kube.KeyOf(pod))
				if err != nil {
					t.Fatal(err)
				}
				for len(events.Events) > 0 {
					if said := <-events.Events; strings.Contains(said, "more than a minute") {
						waits = append(waits, said)
						if clock.Since(began) < time.Minute || !strings.HasPrefix(said, corev1.EventTypeNormal+" "+tc.reason+" ") || !strings.Contains(said, tc.message) {
							t.Errorf("after %s: %s", clock.Since(began), said)
						}
					}
				}
				if result.RequeueAfter == 0 {
					break
				}
				clock.Step(result.RequeueAfter)
			}
			if want := map[bool]int{true: 2}[tc.reason != ""]; len(waits) != want {
				t.Errorf("%d events, want %d: %q", len(waits), want, waits)
			}
		})
	}
}
