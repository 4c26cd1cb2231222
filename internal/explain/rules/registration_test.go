package explain

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
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

// An earlier refusal by the kubelet does not hide what keeps the driver from its registration today.
func TestRefusedRegistrationHasPassed(t *testing.T) {
	const driver = "disk.example.com"
	now := time.Unix(2_000_000_000, 0)
	event := func(reason verdict.Reason, driver string, ago time.Duration) *corev1.Event {
		return &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "node-z", UID: "node-z"},
			Reason:         string(reason), LastTimestamp: metav1.NewTime(now.Add(-ago)),
			Message: "the kubelet and csi driver " + driver + " with socket /csi.sock",
		}
	}
	const refused, accepted = verdict.RegistrationRefused, verdict.RegistrationAccepted
	plugin := func(ago time.Duration) *corev1.Pod {
		yes := true
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "csi", Name: "disk-node-1", CreationTimestamp: metav1.NewTime(now.Add(-ago)),
				OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "disk-node", Controller: &yes}},
			},
			Spec: corev1.PodSpec{NodeName: "node-z", Containers: []corev1.Container{{Name: "node-driver-registrar"}}},
		}
	}
	for name, tc := range map[string]struct {
		events []*corev1.Event
		known  bool // the DaemonSet of the driver
		plugin *corev1.Pod
		want   verdict.Reason
	}{
		"accepted since":             {[]*corev1.Event{event(refused, driver, 9*time.Minute), event(accepted, driver, 8*time.Minute)}, false, nil, ""},
		"refused again":              {[]*corev1.Event{event(accepted, driver, 9*time.Minute), event(refused, driver, 8*time.Minute)}, false, nil, refused},
		"another driver is accepted": {[]*corev1.Event{event(refused, driver, 9*time.Minute), event(accepted, "b", 8*time.Minute)}, false, nil, refused},
		"another driver is refused":  {[]*corev1.Event{event(refused, driver, 9*time.Minute), event(refused, "b", 8*time.Minute)}, false, nil, refused},
		"the pod is refused":         {[]*corev1.Event{event(refused, driver, 9*time.Minute)}, true, plugin(time.Hour), refused},
		"a later pod":                {[]*corev1.Event{event(refused, driver, 9*time.Minute)}, true, plugin(5 * time.Minute), ""},
		"no pod":                     {[]*corev1.Event{event(refused, driver, 9*time.Minute)}, true, nil, ""},
	} {
		c := &Cluster{Now: now, Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-z", UID: "real"}}}, Events: tc.events}
		if tc.known {
			c.CSIDrivers = []*storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: driver}}}
			c.DaemonSets = []*appsv1.DaemonSet{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: "disk-node"},
				Spec:       appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: plugin(0).Spec}},
			}}
		}
		if tc.plugin != nil {
			c.Pods = []*corev1.Pod{tc.plugin}
		}
		f := c.Prepare().byNodePlugin(driver, "node-z", Finding{})
		if f.Reason != tc.want || tc.known && tc.want == "" && !strings.Contains(f.WaitsFor, "daemonset/disk-node") {
			t.Errorf("%s: reason %q, want %q; waits for %s", name, f.Reason, tc.want, f.WaitsFor)
		}
	}
}
