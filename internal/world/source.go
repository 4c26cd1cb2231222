package world

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/migration"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/source"
	"github.com/purser-csi/purser/internal/kube"
)

// Indexes of unbound claims by the source that they name, and of claims by the finalizer that keeps
// them as the source of clones.
const (
	IndexSource = "source"
	IndexCloned = "cloneSource"
	// Cloned is the only value of IndexCloned.
	Cloned = "true"
)

// SourceMemory is the state of this process about one source, beyond the API objects.
type SourceMemory struct {
	Driver   string
	Calls    int                        // CreateVolume calls in flight
	Requests []*csi.VolumeContentSource // of the unresolved requests in the journal
	// Asks reports whether a claim asks for a volume of the driver; nil for each claim.
	Asks func(*corev1.PersistentVolumeClaim) bool
}

// HeldSource gathers the inputs of the decision about the finalizer of a source. A source that is
// in use is not read: each of its users enqueues it once more.
func HeldSource(ctx context.Context, from Readers, ref source.Ref, m SourceMemory) (source.Held, error) {
	h := source.Held{State: source.State{Ref: ref}, Driver: m.Driver}
	var err error
	if h.Users, err = SourceUsers(ctx, from.Cached, ref, m); err != nil || h.Users.IsBusy() {
		return h, err
	}
	h.State, err = Source(ctx, from.Live, ref)
	return h, err
}

// SourceUsers returns the users that keep a source. The claims come from the cache: one whose
// CreateVolume call has begun is there, or counts as a call.
func SourceUsers(ctx context.Context, from client.Reader, ref source.Ref, m SourceMemory) (source.Users, error) {
	u := source.Users{Calls: m.Calls, Requests: m.Requests}
	var claims corev1.PersistentVolumeClaimList
	if err := from.List(ctx, &claims, client.MatchingFields{IndexSource: ref.String()}); err != nil {
		return u, fmt.Errorf("read the claims with the source %s: %w", ref, err)
	}
	for i := range claims.Items {
		if claim := &claims.Items[i]; source.Waits(claim) && (m.Asks == nil || m.Asks(claim)) {
			u.Claims = append(u.Claims, client.ObjectKeyFromObject(claim).String())
		}
	}
	return u, nil
}

// SourceFor gathers the source of a claim in a namespace, with the ReferenceGrants where the source
// is in another one.
func SourceFor(ctx context.Context, from client.Reader, ref source.Ref, namespace string) (source.State, error) {
	if ref.Namespace != namespace {
		s := source.State{Ref: ref}
		if err := readGrants(ctx, from, &s); err != nil || s.Unread.Resource != "" {
			return s, err
		}
		whole, err := Source(ctx, from, ref)
		whole.Grants = s.Grants
		return whole, err
	}
	return Source(ctx, from, ref)
}

// Source gathers a source. from must be the API server: the cache drops most of a bound
// claim, and whether a source may be read must not depend on a stale cache.
//
// A kind that the API server does not serve, and an object that may not be read, are part of the
// answer: both end without a restart (H-38).
func Source(ctx context.Context, from client.Reader, ref source.Ref) (source.State, error) {
	s := source.State{Ref: ref}
	var err error
	switch {
	case ref.IsClaim():
		err = cloneSource(ctx, from, &s)
	case ref.IsSnapshot():
		err = restoreSource(ctx, from, &s)
	}
	return s, err
}

func cloneSource(ctx context.Context, from client.Reader, s *source.State) (err error) {
	s.Claim, err = kube.Get(ctx, from, s.Ref.NamespacedName, &corev1.PersistentVolumeClaim{})
	if err != nil || s.Claim == nil || s.Claim.Spec.VolumeName == "" {
		return err
	}
	pv, err := kube.Get(ctx, from, types.NamespacedName{Name: s.Claim.Spec.VolumeName}, &corev1.PersistentVolume{})
	if err != nil {
		return err
	}
	s.Volume, err = migration.ToCSI(pv) // M-7
	return err
}

func restoreSource(ctx context.Context, from client.Reader, s *source.State) (err error) {
	s.Snapshot, err = kube.Get(ctx, from, s.Ref.NamespacedName, &snapshotv1.VolumeSnapshot{})
	if s.Unread, err = unread(err, "volumesnapshots."+names.SnapshotGroup); err != nil || s.Snapshot == nil {
		return err
	}
	name := source.BoundContent(s.Snapshot)
	if name == "" {
		return nil
	}
	s.Content, err = kube.Get(ctx, from, types.NamespacedName{Name: name}, &snapshotv1.VolumeSnapshotContent{})
	s.Unread, err = unread(err, "volumesnapshotcontents."+names.SnapshotGroup)
	return err
}

// unread turns errors that an administrator ends into an obstacle.
func unread(err error, resource string) (source.Unread, error) {
	switch {
	case apierrors.IsForbidden(err):
		return source.Unread{Resource: resource, Forbidden: true}, nil
	case kube.IsUnserved(err):
		return source.Unread{Resource: resource}, nil
	}
	return source.Unread{}, err
}

// SourceIndexes are the indexes of claims that protection of sources reads.
func SourceIndexes() []Index {
	return []Index{
		{&corev1.PersistentVolumeClaim{}, IndexSource, IndexFunc(func(claim *corev1.PersistentVolumeClaim) []string {
			if ref := source.Of(claim); claim.Spec.VolumeName == "" && !ref.IsNone() {
				return []string{ref.String()}
			}
			return nil
		})},
		{&corev1.PersistentVolumeClaim{}, IndexCloned, IndexFunc(func(claim *corev1.PersistentVolumeClaim) []string {
			if source.IsProtected(claim, source.Ref{Kind: source.KindClaim}) {
				return []string{Cloned}
			}
			return nil
		})},
	}
}
