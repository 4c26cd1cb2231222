package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// volumeOf returns the volume of a bound claim.
func (r *rig) volumeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	r.t.Helper()
	must(r.t, r.Get(r.t.Context(), client.ObjectKeyFromObject(claim), claim))
	pv := &corev1.PersistentVolume{}
	must(r.t, r.Get(r.t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, pv))
	return pv
}

// loseImage moves the image of a mounted volume away and back. The loop device has the file open, so the pod
// does not lose data. The health monitor writes the problem and its end into the claim and emits the events, and
// the kubelet writes both into the pod.
func (r *rig) loseImage(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	r.t.Helper()
	image := filepath.Join(r.stateDir(), "volumes", r.volumeOf(claim).Spec.CSI.VolumeHandle, "image")
	away := filepath.Join(r.dir, "away")
	must(r.t, os.Rename(image, away))
	r.awaitHealth(pod, claim, "Inaccessible/ImageMissing")
	r.awaitEvent(claim, "VolumeConditionAbnormal", "Inaccessible (ImageMissing)")
	must(r.t, os.Rename(away, image))
	r.awaitHealth(pod, claim, "")
	r.awaitEvent(claim, "VolumeConditionNormal", "")
}

// awaitHealth waits until the claim and its pod have these problems of the volume.
func (r *rig) awaitHealth(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, want string) {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if err := r.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		var ofClaim, ofPod string
		if h := claim.Status.HealthStatus; h != nil {
			ofClaim = problems(h.HealthConditions)
		}
		for _, h := range pod.Status.VolumeHealth {
			ofPod += problems(h.HealthConditions)
		}
		if ofClaim != want || ofPod != want {
			return fmt.Errorf("the claim has the problems %q and the pod %q, want %q\n%s", ofClaim, ofPod, want, r.story(ctx, nil))
		}
		return nil
	})
}

func problems(conditions []corev1.VolumeHealthCondition) string {
	var all []string
	for _, c := range conditions {
		all = append(all, string(c.Status)+"/"+c.Reason)
	}
	return strings.Join(all, " ")
}

// awaitEvent waits for an event of the claim whose message has these words.
func (r *rig) awaitEvent(claim *corev1.PersistentVolumeClaim, reason, words string) {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		var events corev1.EventList
		if err := r.List(ctx, &events, client.InNamespace(claim.Namespace)); err != nil {
			return err
		}
		var others []string
		for i := range events.Items {
			e := &events.Items[i]
			if e.InvolvedObject.UID == claim.UID && e.Reason == reason && strings.Contains(e.Message, words) {
				return nil
			}
			others = append(others, e.Reason)
		}
		return fmt.Errorf("the claim has no event %s with %q among %q", reason, words, others)
	})
}
