package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// examples/first-use.yaml: no volume before a pod that uses the claim is scheduled.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	objects := b.manifests(t, "first-use.yaml")
	if len(objects) != 3 {
		t.Fatalf("the example has %d objects, want class, claim and pod", len(objects))
	}
	class, claim, pod := objects[0], &corev1.PersistentVolumeClaim{}, objects[2]
	must(t, b.Client.Create(t.Context(), class))
	t.Cleanup(func() { _ = b.Client.Delete(context.Background(), class) }) // the next test of the example makes it again
	must(t, b.Client.Create(t.Context(), objects[1]))
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(objects[1]), claim))

	b.awaitEvent(t, claim, "persistentvolume-controller", corev1.EventTypeNormal, "WaitForFirstConsumer", "")
	b.passBy(t, "meanwhile")
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	if claim.Status.Phase != corev1.ClaimPending || exists(t, b.folder(claim)) {
		t.Fatalf("claim is %s and has a volume: %v, before a pod uses it", claim.Status.Phase, exists(t, b.folder(claim)))
	}
	if told, err := b.events(t.Context(), claim, builtIn); err != nil || len(told) > 0 {
		t.Errorf("events of ours before a pod uses the claim: %v, %v", told, err)
	}

	b.createPod(t, pod)
	pv := b.awaitBound(t, claim)
	if !exists(t, b.folder(claim)) {
		t.Errorf("claim is bound to %s, which is not on disk", pv.Name)
	}
	b.delete(t, pod, client.GracePeriodSeconds(0))
	b.delete(t, claim)
	b.awaitGone(t, pv)
}

// createPod retries until the namespace has its default service account.
func (b testNamespace) createPod(t *testing.T, pod *unstructured.Unstructured) {
	t.Helper()
	eventually(t, func(ctx context.Context) error { return b.Client.Create(ctx, pod.DeepCopy()) })
}

// An unused claim is deleted without leftovers, also one with the annotation of a provisioner
// before it has a consumer, as after a restore.
func TestFirstUseNever(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	class := b.class(t, func(c *storagev1.StorageClass) { *c.VolumeBindingMode = storagev1.VolumeBindingWaitForFirstConsumer })
	claim := b.newClaim("unused", class.Name)
	claim.Annotations = map[string]string{names.AnnStorageProvisioner: builtIn}
	must(t, b.Client.Create(t.Context(), claim))
	b.awaitEvent(t, claim, "persistentvolume-controller", corev1.EventTypeNormal, "WaitForFirstConsumer", "")
	b.passBy(t, "earlier")
	if exists(t, b.folder(claim)) {
		t.Error("an unused claim got a volume")
	}
	b.delete(t, claim)
	b.awaitGone(t, claim)
	b.passBy(t, "meanwhile")
	err := b.Client.Get(t.Context(), client.ObjectKey{Name: "pvc-" + string(claim.UID)}, &corev1.PersistentVolume{})
	if !apierrors.IsNotFound(err) || exists(t, b.folder(claim)) {
		t.Errorf("a claim that is gone got a volume: %v", err)
	}
}
