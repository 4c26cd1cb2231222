package kube

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

func fullPod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: fullMeta("p")}
	pod.Namespace = "ns"
	pod.Spec = corev1.PodSpec{
		NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}, ServiceAccountName: "s",
		Volumes: []corev1.Volume{
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim", ReadOnly: true}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast")},
			}}}},
		},
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}}
	return pod
}

func trimmedPod(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	out, err := TrimPod(pod.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	return out.(*corev1.Pod)
}

func TestTrimPod(t *testing.T) {
	full := fullPod()
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid-of-it", ResourceVersion: "7"},
		Spec: corev1.PodSpec{NodeName: "n", Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
			full.Spec.Volumes[2],
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	got := trimmedPod(t, full)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if cap(got.Spec.Volumes) != 2 {
		t.Errorf("room for %d volumes is kept", cap(got.Spec.Volumes))
	}
	if diff := cmp.Diff(want, trimmedPod(t, got)); diff != "" {
		t.Errorf("trimmed again: %s", diff)
	}
	if diff := cmp.Diff(&corev1.Pod{}, trimmedPod(t, &corev1.Pod{})); diff != "" {
		t.Error(diff)
	}
	if out, err := TrimPod(toolscache.DeletedFinalStateUnknown{Key: "ns/p"}); err != nil || out == nil {
		t.Errorf("a tombstone became %v, %v", out, err)
	}
}

// 3.6: the claim templates of a pod that has ended or is being deleted are removed.
func TestTrimPodForgetsTemplates(t *testing.T) {
	for what, end := range map[string]func(*corev1.Pod){
		"succeeded": func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"failed":    func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"deleted":   func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Unix(9, 0)) },
	} {
		full := fullPod()
		end(full)
		if got := trimmedPod(t, full); len(got.Spec.Volumes) != 2 || got.Spec.Volumes[1].Ephemeral == nil || got.Spec.Volumes[1].Ephemeral.VolumeClaimTemplate != nil {
			t.Errorf("%s: %+v", what, got.Spec.Volumes)
		}
	}
}

// The decisions about a trimmed and a whole pod are equal.
func TestTrimPodChangesNoDecision(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}}
	own := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-scratch", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "uid-of-it", Controller: new(true)},
	}}}
	decisions := func(pod *corev1.Pod) string {
		out := fmt.Sprint(protection.Uses(pod, claim), protection.Uses(pod, own), protection.ClaimNames(pod), ephemeral.Wants(pod), ephemeral.Volumes(pod))
		for _, volume := range ephemeral.Volumes(pod) {
			v := ephemeral.Decide(ephemeral.Snapshot{Key: ephemeral.Key{Volume: volume}, Pod: pod})
			out += fmt.Sprintf(" %T %s", v, v.Because().Reason)
		}
		return out
	}
	for _, edit := range []func(*corev1.Pod){
		func(*corev1.Pod) {},
		func(p *corev1.Pod) { p.Spec.NodeName = "" },
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Unix(9, 0)), new(int64(0))
		},
		func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Unix(9, 0)), new(int64(30))
		},
	} {
		full := fullPod()
		edit(full)
		if a, b := decisions(full), decisions(trimmedPod(t, full)); a != b {
			t.Errorf("of the whole pod %s\nof the trimmed %s", a, b)
		}
	}
}

// 8.23: the condition PodScheduled is kept while the pod has no node.
func TestTrimPodKeepsWhyItWaits(t *testing.T) {
	pod := fullPod()
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse},
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"},
	}
	if got := trimmedPod(t, pod).Status.Conditions; got != nil {
		t.Errorf("kept of one that has a node: %v", got)
	}
	pod.Spec.NodeName = ""
	want := []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}
	if diff := cmp.Diff(want, trimmedPod(t, pod).Status.Conditions); diff != "" {
		t.Error(diff)
	}
}
