package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NR-H4: what the registrar has said on the Node is evidence for a driver that is not registered there.
func TestRefusedRegistration(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	refused := func(driver, uid string) *corev1.Event {
		return &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "node-z", UID: "node-z"},
			Reason:         "RegistrationRefused", LastTimestamp: metav1.NewTime(now.Add(-time.Minute)),
			Message: "the kubelet refused csi driver " + driver + " with socket /csi.sock: no Node object " + uid,
		}
	}
	for _, tc := range []struct {
		about string
		event *corev1.Event
		want  bool
	}{
		{"the driver", refused("disk.example.com", ""), true},
		{"another driver", refused("disk.example.com.other", ""), false},
		{"none", nil, false},
	} {
		c := &Cluster{Now: now, Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-z", UID: "real"}}}}
		if tc.event != nil {
			c.Events = append(c.Events, tc.event)
		}
		f := c.Prepare().byNodePlugin("disk.example.com", "node-z", Finding{})
		if got := len(f.Evidence) == 1 && strings.Contains(f.Evidence[0].Value, "no Node object"); got != tc.want {
			t.Errorf("an event about %s: evidence %v", tc.about, f.Evidence)
		}
	}
}
