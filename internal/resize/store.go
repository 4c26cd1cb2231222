package resize

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
)

// StoreConfig has the clients of a store.
type StoreConfig struct {
	Cached client.Reader // the informer cache; of claims in change it has the whole status
	Live   client.Reader // the API server
	Writer client.Client // patches of claims' status and of volumes
}

// Store reads and writes claims and volumes. All controllers of a process that change volumes share
// one store, so that each of them sees the others' writes.
type Store struct {
	StoreConfig
	claims  *kube.OwnWrites[*corev1.PersistentVolumeClaim]
	volumes *kube.OwnWrites[*corev1.PersistentVolume]
}

// NewStore returns a store without own writes.
func NewStore(cfg StoreConfig) *Store {
	return &Store{
		StoreConfig: cfg, claims: kube.NewOwnWrites[*corev1.PersistentVolumeClaim](),
		volumes: kube.NewOwnWrites[*corev1.PersistentVolume](),
	}
}

// Reader returns the informer cache with the writes of this process that it does not have yet.
func (s *Store) Reader() client.Reader { return reader{s.Cached, s} }

type reader struct {
	client.Reader
	store *Store
}

// Get implements client.Reader.
func (r reader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	switch o := into.(type) {
	case *corev1.PersistentVolumeClaim:
		return getOwn(ctx, r.Reader, r.store.claims, key, o)
	case *corev1.PersistentVolume:
		return getOwn(ctx, r.Reader, r.store.volumes, key, o)
	}
	return r.Reader.Get(ctx, key, into, opts...)
}

// copier is an object that can be copied into another one of its type.
type copier[T any] interface {
	client.Object
	DeepCopyInto(out T)
}

func getOwn[T copier[T]](ctx context.Context, from client.Reader, own *kube.OwnWrites[T], key client.ObjectKey,
	into T,
) error {
	found, err := kube.ReadOwn(ctx, from, own, key, into)
	switch {
	case err != nil:
		return err
	case any(found) == any(*new(T)):
		return apierrors.NewNotFound(corev1.Resource(fmt.Sprintf("%T", into)), key.Name)
	case any(found) != any(into):
		found.DeepCopyInto(into)
	}
	return nil
}

// Change returns a copy of the claim with the change of an action; ok is false if the action does
// not change claims.
type Change[A any] func(
	of *corev1.PersistentVolumeClaim, a A, now metav1.Time,
) (changed *corev1.PersistentVolumeClaim, ok bool)

// change is a [Change] with its action and its time.
type change func(*corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error)

// Conflict says what [PatchStatus] does if the claim was written by another client since it was
// read.
type Conflict int

const (
	// FailOnConflict returns the error, so that the caller decides again.
	FailOnConflict Conflict = iota
	// ReadOnConflict reads the claim live and applies the change to that. It is for the outcome of
	// a call to the driver: without the write, the call would be repeated.
	ReadOnConflict
)

// Write is the change of one claim's status after an action.
type Write[A any] struct {
	Claim  *corev1.PersistentVolumeClaim
	Action A
	Apply  Change[A]
	Now    func() time.Time
	On     Conflict
}

// PatchStatus writes the status of a claim, and its annotations, with a resourceVersion
// precondition, so that it overwrites no value of another leader. It does nothing for a claim that
// does not exist, that has another uid, or that the action does not change. An action that is not
// for claims is an error.
func PatchStatus[A any](ctx context.Context, s *Store, w Write[A]) error {
	return s.patchStatus(ctx, w.Claim,
		func(claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
			changed, ok := w.Apply(claim, w.Action, metav1.NewTime(w.Now()))
			if !ok {
				return nil, fmt.Errorf("%T is not about a claim", w.Action)
			}
			return changed, nil
		}, w.On)
}

func (s *Store) patchStatus(ctx context.Context, of *corev1.PersistentVolumeClaim, to change, on Conflict) error {
	key := client.ObjectKeyFromObject(of)
	claim, err := kube.ReadOwn(ctx, s.Cached, s.claims, key, &corev1.PersistentVolumeClaim{})
	if err != nil {
		return err
	}
	err = s.writeStatus(ctx, of, claim, to)
	if on == FailOnConflict || !apierrors.IsConflict(err) {
		return err
	}
	if claim, err = kube.Get(ctx, s.Live, key, &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	return s.writeStatus(ctx, of, claim, to)
}

func (s *Store) writeStatus(ctx context.Context, of, claim *corev1.PersistentVolumeClaim, to change) error {
	if claim == nil || claim.UID != of.UID {
		return nil
	}
	changed, err := to(claim)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(claim.Status, changed.Status) &&
		equality.Semantic.DeepEqual(claim.Annotations, changed.Annotations) {
		return nil
	}
	patch := client.StrategicMergeFrom(claim.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := s.Writer.Status().Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("write the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	s.claims.Wrote(changed)
	return nil
}

// PatchVolume writes a volume without a resourceVersion. It is for fields that no other program
// writes.
func (s *Store) PatchVolume(ctx context.Context, pv *corev1.PersistentVolume,
	change func(*corev1.PersistentVolume),
) error {
	changed := pv.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(pv, changed) {
		return nil
	}
	if err := s.Writer.Patch(ctx, changed, client.StrategicMergeFrom(pv.DeepCopy())); err != nil {
		return fmt.Errorf("write PersistentVolume %q: %w", pv.Name, err)
	}
	s.volumes.Wrote(changed)
	return nil
}

// PatchVolumeInOrder is PatchVolume for a field that changes back and forth: the write of a killed
// process must not arrive after that of the next one. It has a resourceVersion precondition; after
// a conflict it reads the volume live and writes once more.
func (s *Store) PatchVolumeInOrder(ctx context.Context, pv *corev1.PersistentVolume,
	change func(*corev1.PersistentVolume),
) error {
	err := s.patchInOrder(ctx, pv, change)
	if !apierrors.IsConflict(err) {
		return err
	}
	live := &corev1.PersistentVolume{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(pv), live); err != nil {
		return fmt.Errorf("read PersistentVolume %q: %w", pv.Name, err)
	}
	return s.patchInOrder(ctx, live, change)
}

func (s *Store) patchInOrder(ctx context.Context, pv *corev1.PersistentVolume,
	change func(*corev1.PersistentVolume),
) error {
	changed := pv.DeepCopy()
	change(changed)
	if !equality.Semantic.DeepEqual(pv, changed) {
		patch := client.StrategicMergeFrom(pv.DeepCopy(), client.MergeFromWithOptimisticLock{})
		if err := s.Writer.Patch(ctx, changed, patch); err != nil {
			return fmt.Errorf("write PersistentVolume %q: %w", pv.Name, err)
		}
	}
	s.volumes.Wrote(changed)
	return nil
}

// ReadPair reads a claim and the volume that it names. Each is nil if it does not exist; the claim
// also if another one has its name by now.
func ReadPair(
	ctx context.Context, from client.Reader, key objects.ClaimKey,
) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	claim, err := kube.Get(ctx, from, key.NamespacedName, &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil || claim.UID != key.UID {
		return nil, nil, err
	}
	if claim.Spec.VolumeName == "" {
		return claim, nil, nil
	}
	pv, err := kube.Get(ctx, from, types.NamespacedName{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
	return claim, pv, err
}
