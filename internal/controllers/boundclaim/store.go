package boundclaim

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	csitranslation "k8s.io/csi-translation-lib"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
)

// Config is what a store needs.
type Config struct {
	Cached client.Reader // the informer cache; of claims in change it has the whole status
	Live   client.Reader // the API server
	Writer client.Client // patches of claims' status and of volumes
}

// Store reads and writes claims and volumes. All controllers of a process that change volumes share
// one, so that none of them acts on a state from before another one's write.
type Store struct {
	Config
	claims     *kube.OwnWrites[*corev1.PersistentVolumeClaim]
	volumes    *kube.OwnWrites[*corev1.PersistentVolume]
	translator csitranslation.CSITranslator
}

// NewStore returns a store that has written nothing yet.
func NewStore(cfg Config) *Store {
	return &Store{
		Config: cfg, claims: kube.NewOwnWrites[*corev1.PersistentVolumeClaim](),
		volumes: kube.NewOwnWrites[*corev1.PersistentVolume](), translator: csitranslation.New(),
	}
}

// Reader returns the informer cache, with the writes of this process that the cache does not show
// yet.
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

// Change returns a claim as it is to be; it does not change the one that is given.
type Change func(*corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error)

// Conflict says what [Store.PatchStatus] does when the claim was written since the cache or this
// process saw it.
type Conflict int

const (
	// FailOnConflict returns the error, and the caller decides anew.
	FailOnConflict Conflict = iota
	// ReadOnConflict reads the claim from the API server and makes the change to that. It is for the
	// outcome of a call to the driver: without the write, the call would be repeated.
	ReadOnConflict
)

// PatchStatus writes the status of a claim, and its annotations, under its resourceVersion, so that
// a value is never written over one that another leader wrote. A claim that is gone, or that
// has another uid by now, is left alone; so is one that the change leaves as it is.
func (s *Store) PatchStatus(ctx context.Context, of *corev1.PersistentVolumeClaim, change Change, on Conflict) error {
	key := client.ObjectKeyFromObject(of)
	claim, err := kube.ReadOwn(ctx, s.Cached, s.claims, key, &corev1.PersistentVolumeClaim{})
	if err != nil {
		return err
	}
	err = s.writeStatus(ctx, of, claim, change)
	if on == FailOnConflict || !apierrors.IsConflict(err) {
		return err
	}
	if claim, err = kube.Get(ctx, s.Live, key, &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	return s.writeStatus(ctx, of, claim, change)
}

func (s *Store) writeStatus(ctx context.Context, of, claim *corev1.PersistentVolumeClaim, change Change) error {
	if claim == nil || claim.UID != of.UID {
		return nil
	}
	changed, err := change(claim)
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

// AsCSI returns the volume with its CSI source. One of an in-tree plugin is translated, as the
// driver that the plugin is migrated to knows it (RZ-D3).
func (s *Store) AsCSI(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	if pv.Spec.CSI != nil {
		return pv, nil
	}
	translated, err := s.translator.TranslateInTreePVToCSI(logr.FromContextOrDiscard(ctx), pv.DeepCopy())
	if err != nil {
		return nil, fmt.Errorf("translate PersistentVolume %q of an in-tree plugin to CSI: %w", pv.Name, err)
	}
	return translated, nil
}
