package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// With Retain the volume outlives its claim, and can be deleted later.
func TestRetain(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	class := b.class(t, func(c *storagev1.StorageClass) { *c.ReclaimPolicy = corev1.PersistentVolumeReclaimRetain })
	claim := b.claim(t, "kept", class.Name)
	pv := b.awaitBound(t, claim)
	entries := filepath.Join(b.folder(claim), "entries") // beside what the driver keeps there
	must(t, os.WriteFile(entries, []byte("day one"), 0o600))

	b.delete(t, claim)
	b.awaitGone(t, claim)
	b.awaitVolume(t, pv, "is Released without our finalizer", func() bool {
		return pv.Status.Phase == corev1.VolumeReleased && !slices.Contains(pv.Finalizers, names.FinalizerVolume)
	})
	b.passBy(t, "meanwhile")
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(pv), pv))
	if kept, err := os.ReadFile(entries); err != nil || string(kept) != "day one" {
		t.Fatalf("the data: %q, %v", kept, err)
	}

	before := pv.DeepCopy()
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	must(t, b.Client.Patch(t.Context(), pv, client.MergeFrom(before)))
	b.awaitGone(t, pv)
	if exists(t, b.folder(claim)) {
		t.Error("the volume is still on disk")
	}
}

// A PersistentVolume that is deleted before its claim stays until the claim is deleted, and then
// the volume is deleted with it (D-30).
func TestVolumeDeletedFirst(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	claim := b.claim(t, "in-use", "")
	pv := b.awaitBound(t, claim)
	b.delete(t, pv)
	b.passBy(t, "meanwhile")
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(pv), pv))
	if pv.DeletionTimestamp == nil || pv.Status.Phase != corev1.VolumeBound || !exists(t, b.folder(claim)) {
		t.Fatalf("deleted at %v, phase %s, on disk %v: want it to wait for its claim", pv.DeletionTimestamp, pv.Status.Phase, exists(t, b.folder(claim)))
	}
	b.delete(t, claim)
	b.awaitGone(t, claim)
	b.awaitGone(t, pv)
	if exists(t, b.folder(claim)) {
		t.Error("the volume is still on disk")
	}
}

// A claim that is deleted while its volume is created leaves nothing, whichever completes first.
func TestClaimDeletedAtOnce(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	for i := range 10 {
		claim := b.claim(t, fmt.Sprintf("fleeting-%d", i), "")
		b.delete(t, claim)
		b.awaitGone(t, claim)
		eventually(t, func(ctx context.Context) error {
			err := b.Client.Get(ctx, client.ObjectKey{Name: "pvc-" + string(claim.UID)}, &corev1.PersistentVolume{})
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			if err == nil || exists(t, b.folder(claim)) {
				return fmt.Errorf("claim %s is gone; its PersistentVolume is left: %v, its folder: %v", claim.Name, err == nil, exists(t, b.folder(claim)))
			}
			return nil
		})
	}
}

// awaitVolume reads pv until it fits.
func (b testNamespace) awaitVolume(t *testing.T, pv *corev1.PersistentVolume, what string, fits func() bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(pv), pv); err != nil {
			return err
		}
		if !fits() {
			return fmt.Errorf("not true that %s %s: phase %s, finalizers %v", pv.Name, what, pv.Status.Phase, pv.Finalizers)
		}
		return nil
	})
}
