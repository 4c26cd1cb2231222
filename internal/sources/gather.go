package sources

import (
	"context"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Indexes of unbound claims by the source that they name, and of claims by the finalizer that keeps
// them as the source of clones.
const (
	IndexSource = "source"
	IndexCloned = "cloneSource"
	// Cloned is the only value of IndexCloned.
	Cloned = "true"
)

// Reader reads snapshots. Without the functions it reads as a fresh process does.
type Reader struct {
	kube.Readers
	Driver string
	// Asks reports whether a claim asks for a volume of the driver; nil for each claim.
	Asks func(*corev1.PersistentVolumeClaim) bool
	// Known returns the users that this process knows of, without the claims that wait; nil for none.
	Known func(context.Context, source.Ref) (source.Users, error)
	// Protected returns the source as this process knows it with the finalizer; nil for none.
	Protected func(source.Ref) source.State
	// Snapshots reads VolumeSnapshots from the cache; nil where the process does not have them there.
	Snapshots client.Reader
	// Elsewhere returns the unresolved requests of instances on other nodes; nil for no such instances.
	Elsewhere func(context.Context) ([]source.Request, error)
}

// Gather returns a source with its users. The claims come from the cache: one whose CreateVolume call has
// begun is there, or counts as a call.
func (r Reader) Gather(ctx context.Context, ref source.Ref) (source.Held, error) {
	h := source.Held{State: source.State{Ref: ref}, Driver: r.Driver, PerNode: r.Elsewhere != nil}
	var err error
	if r.Known != nil {
		if h.Users, err = r.Known(ctx, ref); err != nil {
			return h, err
		}
	}
	if h.Users.Claims, err = r.claims(ctx, ref); err != nil {
		return h, err
	}
	if !ref.IsClaim() {
		return r.known(ctx, h)
	}
	h.Claim, err = kube.Get(ctx, r.Cached, ref.NamespacedName, &corev1.PersistentVolumeClaim{}) // for its event
	return h, err
}

// known adds a VolumeSnapshot without users as this process knows it with the finalizer, or as new as the
// cache has it.
func (r Reader) known(ctx context.Context, h source.Held) (source.Held, error) {
	if r.Protected == nil || h.Users.IsBusy() {
		return h, nil
	}
	known := r.Protected(h.Ref)
	if known.Snapshot == nil {
		return h, nil
	}
	if r.Snapshots != nil {
		now, err := kube.Get(ctx, r.Snapshots, h.Ref.NamespacedName, &snapshotv1.VolumeSnapshot{})
		if err != nil || now == nil || now.UID != known.Snapshot.UID {
			return h, err
		}
		if objects.IsNewer(now.ResourceVersion, known.Snapshot.ResourceVersion) {
			known.Snapshot = now
		}
	}
	h.State, h.IsKnown = known, true
	return h, nil
}

// Read returns the snapshot with what a decision asked for.
func (r Reader) Read(ctx context.Context, h source.Held, refs []verdict.Ref) (source.Held, error) {
	now := h
	for _, ref := range refs {
		var err error
		switch ref.What {
		case source.ReadSource:
			now.IsLive = true
			now.State, err = Read(ctx, r.Live, h.Ref)
		case source.ReadOthers:
			now.HasOthers = true
			now.Others, err = r.Elsewhere(ctx)
		case source.ReadUsers:
			now, err = r.Gather(ctx, h.Ref)
		default:
			err = fmt.Errorf("the protection of sources cannot read %s; this is a bug of Purser, please report it", ref)
		}
		if err != nil {
			return h, err
		}
	}
	return now, nil
}

// claims returns the claims that wait for a volume from the source.
func (r Reader) claims(ctx context.Context, ref source.Ref) (waiting []string, err error) {
	var claims corev1.PersistentVolumeClaimList
	if err := r.Cached.List(ctx, &claims, client.MatchingFields{IndexSource: ref.String()}); err != nil {
		return nil, fmt.Errorf("read the claims with the source %s: %w", ref, err)
	}
	for i := range claims.Items {
		if claim := &claims.Items[i]; source.Waits(claim) && (r.Asks == nil || r.Asks(claim)) {
			waiting = append(waiting, client.ObjectKeyFromObject(claim).String())
		}
	}
	return waiting, nil
}

// ReadFor gathers the source of a claim in a namespace, with the ReferenceGrants where the source
// is in another one.
func ReadFor(ctx context.Context, from client.Reader, ref source.Ref, namespace string) (source.State, error) {
	if ref.Namespace != namespace {
		s := source.State{Ref: ref}
		if err := readGrants(ctx, from, &s); err != nil || s.Unread.Resource != "" {
			return s, err
		}
		whole, err := Read(ctx, from, ref)
		whole.Grants = s.Grants
		return whole, err
	}
	return Read(ctx, from, ref)
}

// Read gathers a source. For a claim, from must be the API server: the cache drops most of a bound one.
//
// A kind that the API server does not serve, and an object that may not be read, are part of the
// answer: both end without a restart (H-38).
func Read(ctx context.Context, from client.Reader, ref source.Ref) (source.State, error) {
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
	s.Volume, err = objects.ToCSI(pv) // M-7
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

// Indexes are the indexes of claims that protection of sources reads.
func Indexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(IndexSource, func(claim *corev1.PersistentVolumeClaim) []string {
			if ref := source.Of(claim); claim.Spec.VolumeName == "" && !ref.IsNone() {
				return []string{ref.String()}
			}
			return nil
		}),
		kube.IndexBy(IndexCloned, func(claim *corev1.PersistentVolumeClaim) []string {
			if source.IsProtected(claim, source.Ref{Kind: source.KindClaim}) {
				return []string{Cloned}
			}
			return nil
		}),
	}
}
