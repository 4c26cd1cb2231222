package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ask edits the size of a claim as a user does.
func (b berth) ask(t *testing.T, claim *corev1.PersistentVolumeClaim, size string) {
	t.Helper()
	before := claim.DeepCopy()
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	must(t, b.Client.Patch(t.Context(), claim, client.MergeFrom(before)))
}

// awaitClaim waits until a claim fits.
func (b berth) awaitClaim(t *testing.T, claim *corev1.PersistentVolumeClaim, what string, fits func() bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if !fits() {
			return fmt.Errorf("%s: not yet; status %+v; its events:\n%s", what, claim.Status, b.story(ctx, claim))
		}
		return nil
	})
}

// A claim grows to 2Gi; 100Ti are infeasible with the driver's words; 3Gi work after that (KEP-1790).
func TestExpansion(t *testing.T) {
	t.Parallel()
	b := newBerth(t, shared(t))
	class := b.class(t, func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = new(true) })
	claim := b.claim(t, "grows", class.Name)
	b.awaitBound(t, claim)
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	for _, size := range []string{"2Gi", "100Ti", "3Gi"} {
		b.ask(t, claim, size)
		want := resource.MustParse(size)
		if size == "100Ti" {
			b.awaitClaim(t, claim, "100Ti are infeasible", func() bool { return hasError(claim, "OutOfRange") })
			continue
		}
		b.awaitClaim(t, claim, "the volume has "+size, func() bool {
			allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]
			state := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
			return allocated.Cmp(want) == 0 && (state == corev1.PersistentVolumeClaimNodeResizePending || state == "")
		})
		b.finishOnNode(t, claim)
	}
	if largest := largestFile(t, b.folder(claim)); os.Getuid() == 0 && largest != 3<<30 {
		t.Errorf("the image of the volume has %d bytes", largest)
	}
}

func hasError(claim *corev1.PersistentVolumeClaim, words string) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimControllerResizeError && strings.Contains(c.Message, words)
	})
}

// finishOnNode writes what a kubelet writes when it has expanded the filesystem (RZ-K2); this
// cluster has none.
func (b berth) finishOnNode(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	before := claim.DeepCopy()
	claim.Status.Capacity = claim.Spec.Resources.Requests
	claim.Status.AllocatedResourceStatuses, claim.Status.Conditions = nil, nil
	must(t, b.Client.Status().Patch(t.Context(), claim, client.MergeFrom(before)))
}

// largestFile returns the bytes of the largest file below a folder.
func largestFile(t *testing.T, dir string) (largest int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			largest = max(largest, info.Size())
		}
		return err
	}))
	return largest
}
