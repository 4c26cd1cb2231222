package mounting

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// apply gives the pod the fields of a status, as the API server merges them.
func (s SetStatus) apply(pod *corev1.Pod) {
	for _, c := range s.Status.Conditions {
		set := false
		for i := range pod.Status.Conditions {
			if pod.Status.Conditions[i].Type == c.Type {
				pod.Status.Conditions[i], set = c, true
			}
		}
		if !set {
			pod.Status.Conditions = append(pod.Status.Conditions, c)
		}
	}
	if s.Status.Phase != "" {
		pod.Status.Phase = s.Status.Phase
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = s.Status.ContainerStatuses, s.Status.InitContainerStatuses
	}
}

func run(s PodSnapshot) (notes int) {
	do, ok := DecidePod(s).(verdict.Do[PodAction])
	if !ok {
		return 0
	}
	for _, a := range do.Actions {
		switch act := a.(type) {
		case SetStatus:
			act.apply(s.Pod)
		case NotePod:
			notes++
		default:
		}
	}
	return notes
}

func conditionOf(pod *corev1.Pod, t corev1.PodConditionType) (c corev1.PodCondition) {
	for _, have := range pod.Status.Conditions {
		if have.Type == t {
			c = have
		}
	}
	return c
}

// The text of the last wait does not outlive the wait, each pod gets one event, and only a pod that is to
// be reported as running is.
func TestReportOfAPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for _, runtime := range []Runtime{NoContainers, ReportedContainers} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "first"}, {Name: "beside", RestartPolicy: &always}},
			Containers:     []corev1.Container{{Name: "main"}},
		}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		s := PodSnapshot{Pod: pod, Runtime: runtime, Volumes: []PodVolume{{Name: "v", Why: verdict.Finding{Reason: verdict.StageFailed, Message: "disk"}}}}
		if notes := run(s); notes != 0 || pod.Status.Phase != corev1.PodPending || conditionOf(pod, corev1.PodReady).Status != corev1.ConditionFalse {
			t.Errorf("%d, waiting: %d events, %+v", runtime, notes, pod.Status)
		}
		s.Volumes = []PodVolume{{Name: "v", Published: true}}
		if notes := run(s) + run(s); notes != 1 {
			t.Errorf("%d: %d events", runtime, notes)
		}
		if c := conditionOf(pod, names.ConditionVolumesPublished); c.Status != corev1.ConditionTrue || c.Message != volumesPublished {
			t.Errorf("%d: %+v", runtime, c)
		}
		ready := conditionOf(pod, corev1.PodReady)
		if isReady := ready.Status == corev1.ConditionTrue; isReady != (runtime == ReportedContainers) || ready.Message != containersDoNotRun {
			t.Errorf("%d: %+v", runtime, ready)
		}
		if _, again := DecidePod(s).(verdict.Do[PodAction]); again {
			t.Errorf("%d: another write", runtime)
		}
		if runtime != ReportedContainers {
			continue
		}
		initial, main := pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses
		if len(initial) != 2 || initial[0].State.Terminated == nil || initial[1].State.Running == nil || len(main) != 1 || main[0].State.Running == nil {
			t.Errorf("%+v %+v", initial, main)
		}
		pod.DeletionTimestamp = &metav1.Time{Time: now}
		if WantsVolumes(pod) {
			t.Error("a terminating pod keeps its volumes for containers that never ran")
		}
	}
}

// A pod whose readiness gate is not met is not ready.
func TestReadinessGate(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "gate"}}}}
	s := PodSnapshot{Pod: pod, Runtime: ReportedContainers}
	run(s)
	if c := conditionOf(pod, corev1.PodReady); c.Status != corev1.ConditionFalse {
		t.Errorf("%+v", c)
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "gate", Status: corev1.ConditionTrue})
	run(s)
	if c := conditionOf(pod, corev1.PodReady); c.Status != corev1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}

// FuzzDecisions: any pod, claim and volume have a decision, and what is written for a pod is written once.
func FuzzDecisions(f *testing.F) {
	u := use("a")
	for _, object := range []any{u.Pod, u.Claim, u.PV} {
		raw, err := json.Marshal(object)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, raw, raw, uint8(1))
	}
	f.Fuzz(func(t *testing.T, rawPod, rawClaim, rawPV []byte, bits uint8) {
		pod, claim, pv := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		if json.Unmarshal(rawPod, pod) != nil || json.Unmarshal(rawClaim, claim) != nil || json.Unmarshal(rawPV, pv) != nil {
			t.Skip("no object")
		}
		uses, problems := Resolve(pod, Objects{
			Claim:  func(string, string) *corev1.PersistentVolumeClaim { return claim },
			Volume: func(string) *corev1.PersistentVolume { return pv },
		})
		s := PodSnapshot{Pod: pod, Problems: problems, Runtime: Runtime(bits % 3), Recorded: int(bits >> 7)}
		for _, one := range uses {
			world := snapshot(func(s *Snapshot) { s.Key, s.Uses = one.Key, []Use{one} })
			_ = Decide(world, now)
			layout := Layout{Root: "/root"}
			_, _ = world.StageRequest(layout, one)
			_, _ = world.PublishRequest(layout, one)
			_, _ = world.ExpandRequest(layout, one)
			_, _, _ = world.OwnershipOf(one)
			s.Volumes = append(s.Volumes, PodVolume{Name: one.Name, Published: bits&4 != 0, Why: verdict.Finding{Reason: verdict.StageFailed}})
		}
		run(s)
		if do, ok := DecidePod(s).(verdict.Do[PodAction]); ok {
			for _, a := range do.Actions {
				if _, again := a.(SetStatus); again {
					t.Errorf("another write of %+v", pod.Status)
				}
			}
		}
	})
}
