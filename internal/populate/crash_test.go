package populate

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	populate "github.com/purser-csi/purser/internal/populate/rules"
)

// outcome is what must hold when nothing changes any more: no object of the populator is left, and the claim
// has its volume, or is gone with it.
func (w *world) outcome() error {
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&claims, &volumes, &pods} {
		if err := w.api.List(w.Context(), list); err != nil {
			return err
		}
	}
	if len(pods.Items) > 0 {
		return fmt.Errorf("the pod %s is left", pods.Items[0].Name)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		switch {
		case claim.UID != w.claim.UID:
			return fmt.Errorf("the claim %s is left", claim.Name)
		case claim.DeletionTimestamp != nil:
			return fmt.Errorf("the claim is held by %q", claim.Finalizers)
		case slices.Contains(claim.Finalizers, "p.example.com/populate-target-protection"):
			return fmt.Errorf("the claim has the finalizer still")
		case claim.Status.Phase != corev1.ClaimBound || len(volumes.Items) != 1 ||
			volumes.Items[0].Spec.ClaimRef.UID != claim.UID:
			return fmt.Errorf("the claim is %s with %d volumes", claim.Status.Phase, len(volumes.Items))
		case volumes.Items[0].Annotations["p.example.com/populated-from"] != "shop/s":
			return fmt.Errorf("the volume has the annotations %v", volumes.Items[0].Annotations)
		}
	}
	if len(claims.Items) == 0 && len(volumes.Items) > 0 {
		return fmt.Errorf("the claim is gone, and %d volumes are left", len(volumes.Items))
	}
	return nil
}

// VP-H1, VP-12: a crash before and after each write, and a deletion of the claim after each write, leak no
// object. VP-16: no volume of a claim that exists is deleted.
func TestCrashAtEveryWrite(t *testing.T) {
	plain := newWorld(t)
	plain.failures, plain.writer = 1, &killed{Client: plain.api}
	plain.run()
	if err := plain.outcome(); err != nil || plain.reclaimed > 0 {
		t.Fatal(err, plain.reclaimed)
	}
	// the finalizer, the prime claim, a pod, its failure and deletion, a pod, claimRef, two deletions, the finalizer
	writes := plain.writer.writes
	if writes != 10 {
		t.Errorf("%d writes with one failed pod, want 10", writes)
	}
	runs := 0
	for at := range writes + 1 {
		for _, before := range []bool{true, false} {
			for deleted := -1; deleted <= writes; deleted++ {
				runs++
				t.Run(fmt.Sprintf("killed %d before %t deleted %d", at, before, deleted), func(t *testing.T) {
					crash(t, at, before, deleted)
				})
			}
		}
	}
	t.Logf("%d runs", runs)
}

// crash runs a world whose process is killed at a write, and whose user deletes the claim after a write; -1
// for never.
func crash(t *testing.T, at int, before bool, deleted int) {
	t.Helper()
	w := newWorld(t)
	w.failures = 1
	w.writer = &killed{Client: w.api, at: at, before: before}
	remove := func(write int) {
		if write == deleted {
			w.must(client.IgnoreNotFound(w.api.Delete(t.Context(), w.claim.DeepCopy())))
		}
	}
	w.writer.each = remove
	remove(0)
	w.run()
	if err := w.outcome(); err != nil {
		t.Error(err)
	}
	err := w.api.Get(t.Context(), client.ObjectKeyFromObject(w.claim), &corev1.PersistentVolumeClaim{})
	switch exists := !apierrors.IsNotFound(err); {
	case deleted < 0 && (!exists || w.reclaimed > 0):
		t.Errorf("the claim exists: %t, and %d volumes were deleted", exists, w.reclaimed)
	case deleted >= 0 && exists && w.writer.writes >= deleted:
		t.Error("the claim was deleted and exists")
	}
}

// VP-H1: a user who removes the finalizer and deletes the claim leaves objects that the next start sweeps.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	w.writer = &killed{Client: w.api}
	w.writer.each = func(write int) {
		if write == 3 { // the pod is created
			w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(w.claim), w.claim))
			w.claim.Finalizers = nil
			w.must(w.api.Update(t.Context(), w.claim))
			w.must(w.api.Delete(t.Context(), w.claim.DeepCopy()))
		}
	}
	w.run()
	if err := w.outcome(); err != nil || w.reclaimed != 1 {
		t.Error(err, w.reclaimed)
	}
}

// VP-13: the events of a claim whose first pod fails, each once.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	w.failures, w.writer = 1, &killed{Client: w.api}
	w.run()
	seen := slices.Compact(w.events)
	seen = slices.DeleteFunc(seen, func(e string) bool { return e == "PopulatorFailed" })
	if want := []string{"PopulatorCreated", "PopulatorFinished"}; !slices.Equal(seen, want) {
		t.Errorf("events %q, want %q", seen, want)
	}
}

// VP-2, VP-9: the pod has what the source asks for, and nothing more.
func TestNewPod(t *testing.T) {
	w := newWorld(t)
	c := &Controller{Config{Image: "i", Rules: populate.Settings{Namespace: "work", Prefix: "p.example.com"}}}
	w.claim.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	s := populate.Snapshot{Claim: w.claim, UID: w.claim.UID}
	pod := c.newPod(s, Request{Args: []string{"a"}, Secret: "s", SecretPath: "/p", Port: 7}, 2)
	container := pod.Spec.Containers[0]
	if pod.Name != "populate-"+string(w.claim.UID) || container.Name != "populate" ||
		pod.Spec.Volumes[0].Name != "target" {
		t.Errorf("names %s, %s, %s", pod.Name, container.Name, pod.Spec.Volumes[0].Name)
	}
	if len(container.VolumeDevices) != 1 || len(container.VolumeMounts) != 1 ||
		container.VolumeMounts[0].MountPath != "/p" {
		t.Errorf("devices %v, mounts %v", container.VolumeDevices, container.VolumeMounts)
	}
	if *pod.Spec.AutomountServiceAccountToken || portOf(pod) != 7 || c.Rules.Failures(pod) != 2 {
		t.Errorf(
			"token %t, port %d, failures %d", *pod.Spec.AutomountServiceAccountToken, portOf(pod),
			c.Rules.Failures(pod),
		)
	}
}
