package resize

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
)

// Store has the clients of a controller of claims, and its writes.
type Store struct {
	Cached *kube.Overlay // of claims in change it has the whole status
	Live   client.Reader // the API server
	Writer client.Client // patches of claims' status and of volumes; recorded by Cached
}

// Change returns a copy of the claim as it is after an action.
type Change func(*corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim

// PatchClaim writes the status of the claim that a decision was about, and its annotations, with its
// resourceVersion as precondition, so that it overwrites no value of another leader. After a conflict the
// claim is decided on again.
func (s Store) PatchClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, to Change) error {
	changed := to(claim)
	if equality.Semantic.DeepEqual(claim.Status, changed.Status) &&
		equality.Semantic.DeepEqual(claim.Annotations, changed.Annotations) {
		return nil
	}
	patch := client.StrategicMergeFrom(claim.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := s.Writer.Status().Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("write the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// PatchOutcome is PatchClaim for the outcome of a call to the driver: without the write, the call would be
// repeated. It changes the claim as it is now, and after a conflict the claim as the API server has it. A
// claim that does not exist any more is left alone.
func (s Store) PatchOutcome(ctx context.Context, of *corev1.PersistentVolumeClaim, to Change) error {
	err := s.patchNewest(ctx, s.Cached, of, to)
	if apierrors.IsConflict(err) {
		err = s.patchNewest(ctx, s.live(), of, to)
	}
	return err
}

func (s Store) patchNewest(
	ctx context.Context, from client.Reader, of *corev1.PersistentVolumeClaim, to Change,
) error {
	claim, err := kube.GetSame(ctx, from, kube.KeyOf(of), &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil {
		return err
	}
	return s.PatchClaim(ctx, claim, to)
}

// PatchVolume writes a volume without a resourceVersion. It is for fields that no other program
// writes.
func (s Store) PatchVolume(
	ctx context.Context, pv *corev1.PersistentVolume, change func(*corev1.PersistentVolume),
) error {
	return s.patchVolume(ctx, s.Cached, pv, change)
}

// PatchVolumeInOrder is PatchVolume for a field that changes back and forth: the write of a killed
// process must not arrive after that of the next one. It has a resourceVersion precondition; after
// a conflict it reads the volume live and writes once more.
func (s Store) PatchVolumeInOrder(
	ctx context.Context, pv *corev1.PersistentVolume, change func(*corev1.PersistentVolume),
) error {
	err := s.patchVolume(ctx, s.Cached, pv, change, client.MergeFromWithOptimisticLock{})
	if apierrors.IsConflict(err) {
		err = s.patchVolume(ctx, s.live(), pv, change, client.MergeFromWithOptimisticLock{})
	}
	return err
}

func (s Store) patchVolume(
	ctx context.Context, from client.Reader, of *corev1.PersistentVolume, change func(*corev1.PersistentVolume),
	preconditions ...client.MergeFromOption,
) error {
	pv, err := kube.GetSame(ctx, from, kube.KeyOf(of), &corev1.PersistentVolume{})
	if err == nil && pv == nil {
		err = fmt.Errorf("PersistentVolume %q does not exist any more", of.Name)
	}
	if err != nil {
		return err
	}
	changed := pv.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(pv, changed) {
		return nil
	}
	if err := s.Writer.Patch(ctx, changed, client.StrategicMergeFrom(pv, preconditions...)); err != nil {
		return fmt.Errorf("write PersistentVolume %q: %w", pv.Name, err)
	}
	return nil
}

// live returns a reader of the API server. What it reads is laid over the cache, which was found to be stale:
// the next decision must not take the volume for one that still has the class of before.
func (s Store) live() client.Reader { return liveReader{s.Live, s.Cached} }

type liveReader struct {
	client.Reader
	over *kube.Overlay
}

// Get implements client.Reader.
func (r liveReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, into, opts...)
	if err == nil {
		r.over.Wrote(into.DeepCopyObject().(client.Object))
	}
	return err
}
