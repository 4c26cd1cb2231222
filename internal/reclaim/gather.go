package reclaim

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"

	"github.com/purser-csi/purser/internal/objects"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

const (
	// IndexAttachedVolume finds the VolumeAttachments of a PersistentVolume, which upstream searches
	// for in the whole list (H-45).
	IndexAttachedVolume = "volume"
	// IndexVolumeHandle finds the PersistentVolumes of the driver with a volume handle (D-37).
	IndexVolumeHandle = "handle"
	// IndexAwaitedClaim finds the PersistentVolumes that are deleted when a claim is gone (D-35).
	IndexAwaitedClaim = "awaited"
)

// Indexes are the indexes of [Gather] for one driver.
func Indexes(driver reclaim.Driver) []kube.Index {
	all := []kube.Index{
		kube.IndexBy(IndexVolumeHandle, func(pv *corev1.PersistentVolume) []string {
			if handle := reclaim.Handle(pv, driver.Name); handle != "" {
				return []string{handleBucket(handle)}
			}
			return nil
		}),
		kube.IndexBy(IndexAwaitedClaim, func(pv *corev1.PersistentVolume) []string {
			if !reclaim.NeedsProof(pv) {
				return nil
			}
			return []string{pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name}
		}),
	}
	if Attaches(driver) {
		all = append(all, kube.IndexBy(IndexAttachedVolume, kube.AttachedVolume))
	}
	return all
}

// Attaches reports whether volumes of the driver have VolumeAttachments at all (W-5).
func Attaches(driver reclaim.Driver) bool {
	return driver.Controller[csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME]
}

// handleBuckets is how many parts the index of handles has. One for each handle costs more memory
// than a volume's name and handle together, for a question that is asked once in the life of a
// volume.
const handleBuckets = 1024

func handleBucket(handle string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(handle)) // it never fails
	return strconv.Itoa(int(hash.Sum32() % handleBuckets))
}

// Memory is the state of this process about one PersistentVolume, beyond the API objects.
type Memory struct {
	Now    time.Time
	Driver reclaim.Driver
	// Protector says that the volume protection controller is in this process; see
	// [reclaim.Snapshot].
	Protector bool
	// Volumes are this process's own writes; nil for none.
	Volumes *kube.OwnWrites[*corev1.PersistentVolume]
	// Removal must be read from memory before the cache is read: what memory forgets, the cache does
	// not show any more.
	Removal reclaim.Removal
	// SawRelease reports whether the watch has shown the release of the volume, and no attempt has
	// failed since; nil for never.
	SawRelease func(*corev1.PersistentVolume) bool
	// IsComing reports whether an event of this very version is still to come, so that it need not be
	// decided about now; nil for never.
	IsComing func(*corev1.PersistentVolume) bool
	// CallsEnd returns when the CreateVolume calls of previous leaders for a PersistentVolume must
	// have ended, as the journal says; nil for no journal.
	CallsEnd func(ctx context.Context, pv *corev1.PersistentVolume) (time.Time, error)
}

func (m Memory) sawRelease(pv *corev1.PersistentVolume) bool {
	return m.SawRelease != nil && m.SawRelease(pv)
}

// Gather gathers the inputs of the decision about a PersistentVolume whose claim may be gone. It
// reads the objects around the volume only when the volume may be reclaimed.
func Gather(ctx context.Context, from kube.Readers, name string, m Memory) (s reclaim.Snapshot, err error) {
	s = reclaim.Snapshot{Name: name, Driver: m.Driver, Protector: m.Protector}
	if s.Volume, s.Fresh, err = reclaimedVolume(ctx, from, name, m); err != nil {
		return s, err
	}
	s.InTree = objects.IsInTree(s.Volume)
	if s.Volume, err = objects.ToCSI(s.Volume); err != nil { // D-11
		return s, err
	}
	if s.Fresh {
		s.Claim = reclaim.ClaimGone
	}
	s.Fresh = s.Fresh || s.Volume != nil && m.sawRelease(s.Volume)
	if s.Volume == nil || reclaim.Owner(s.Volume) != m.Driver.Name || !reclaim.MayReclaim(s.Volume) {
		return s, nil
	}
	s.Now = m.Now
	if s.Claim == reclaim.NotRead { // an ordinary deletion costs no read
		if s.Claim, err = claimProof(ctx, from, s.Volume); err != nil {
			return s, err
		}
	}
	others, err := othersWithHandle(ctx, from, s.Volume, m)
	if err != nil {
		return s, err
	}
	if s, err = aroundVolume(ctx, from, s, others, m); err != nil {
		return s, err
	}
	if class := reclaim.ClassToRead(s.Volume); class != "" {
		s.Class, err = kube.Get(ctx, from.Cached, types.NamespacedName{Name: class}, &storagev1.StorageClass{})
	}
	return s, err
}

// othersWithHandle returns the other PersistentVolumes with the handle that the cache shows, as
// they are now.
func othersWithHandle(
	ctx context.Context, from kube.Readers, pv *corev1.PersistentVolume, m Memory,
) ([]*corev1.PersistentVolume, error) {
	others, err := OthersWithHandle(ctx, from.Cached, pv, m)
	if err != nil {
		return nil, err
	}
	all := from.AllVolumes
	if all == nil {
		all = from.Live
	}
	return WithHandle(ctx, all, m.Driver.Name, reclaim.Handle(pv, m.Driver.Name), NamesOf(others))
}

// GatherAfterLook gathers again what may have changed around a volume while all PersistentVolumes
// were listed: s.Volume and the others with its handle are as the API server has them now.
func GatherAfterLook(
	ctx context.Context, from kube.Readers, s reclaim.Snapshot, others []*corev1.PersistentVolume, m Memory,
) (reclaim.Snapshot, error) {
	s.SameHandle, s.Attached = nil, nil
	var err error
	if s.Claim, err = claimProof(ctx, from, s.Volume); err != nil {
		return s, err
	}
	return aroundVolume(ctx, from, s, others, m)
}

// reclaimedVolume returns the volume of the name; nil when nothing is left to do for it. When the
// cache is too old to show a write whose answer was lost, a later event shows it.
func reclaimedVolume(
	ctx context.Context, from kube.Readers, name string, m Memory,
) (pv *corev1.PersistentVolume, fresh bool, err error) {
	newest, err := kube.ReadOwn(ctx, from.Cached, m.Volumes, client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
	if err != nil || newest == nil || m.Removal.Finishes(newest) {
		return nil, false, err
	}
	if pv, fresh, err = freshVolume(ctx, from, newest, m); err != nil || pv == nil || m.Removal.Finishes(pv) {
		return nil, false, err
	}
	return pv, fresh, nil
}

// freshVolume returns the cached volume, or the live one where the cache is not fresh enough to
// delete it.
func freshVolume(
	ctx context.Context, from kube.Readers, cached *corev1.PersistentVolume, m Memory,
) (now *corev1.PersistentVolume, fresh bool, err error) {
	switch reclaim.ViewOf(cached, m.Driver.Name, m.sawRelease(cached), m.Now) {
	case reclaim.ViewSuffices:
		return cached, false, nil
	case reclaim.ViewIsFresh:
		return cached, true, nil
	case reclaim.ViewNeedsLive:
	}
	if m.IsComing != nil && m.IsComing(cached) {
		return nil, false, nil
	}
	now, err = kube.Get(ctx, from.Live, client.ObjectKeyFromObject(cached), &corev1.PersistentVolume{})
	if err != nil || now == nil || now.UID != cached.UID { // another object of the name is enqueued by its own event
		return nil, false, err
	}
	return now, false, nil
}

// aroundVolume reads the claims of the PersistentVolumes with the same handle, the calls of
// previous leaders, and the VolumeAttachments of these and the volume (D-16, D-37).
func aroundVolume(
	ctx context.Context, from kube.Readers, s reclaim.Snapshot, others []*corev1.PersistentVolume, m Memory,
) (reclaim.Snapshot, error) {
	all := []*corev1.PersistentVolume{s.Volume}
	for _, pv := range others {
		proof, err := liveProof(ctx, from.Live, pv)
		if err != nil {
			return s, err
		}
		s.SameHandle = append(s.SameHandle, reclaim.SameHandle{Volume: pv, Claim: proof})
		all = append(all, pv)
	}
	for _, pv := range all {
		if m.CallsEnd != nil {
			ends, err := m.CallsEnd(ctx, pv)
			if err != nil {
				return s, err
			}
			if ends.After(s.CallsEnd) {
				s.CallsEnd = ends
			}
		}
		if !Attaches(m.Driver) {
			continue
		}
		var attachments storagev1.VolumeAttachmentList
		if err := from.Cached.List(ctx, &attachments, client.MatchingFields{IndexAttachedVolume: pv.Name}); err != nil {
			return s, fmt.Errorf("read the VolumeAttachments of %q: %w", pv.Name, err)
		}
		for i := range attachments.Items {
			s.Attached = append(s.Attached, attachments.Items[i].Spec.NodeName)
		}
	}
	return s, nil
}

// OthersWithHandle returns the other volumes with the handle of a volume from the cache, and those
// that this process wrote and the cache does not show yet. Nearly always there are none. The caller
// must not change them.
func OthersWithHandle(
	ctx context.Context, from client.Reader, pv *corev1.PersistentVolume, m Memory,
) ([]*corev1.PersistentVolume, error) {
	handle := reclaim.Handle(pv, m.Driver.Name)
	if handle == "" {
		return nil, nil
	}
	all, err := CachedWithHandle(ctx, from, handle, m)
	return slices.DeleteFunc(all, func(other *corev1.PersistentVolume) bool { return other.Name == pv.Name }), err
}

// CachedWithHandle is [OthersWithHandle] for all volumes with a handle.
func CachedWithHandle(
	ctx context.Context, from client.Reader, handle string, m Memory,
) (all []*corev1.PersistentVolume, err error) {
	has := func(pv *corev1.PersistentVolume) bool { return reclaim.Handle(pv, m.Driver.Name) == handle }
	own := m.Volumes.Unseen(has) // before the cache: a write that is not unseen any more is in the cache
	var near corev1.PersistentVolumeList
	// Not copied: the caller only reads them.
	if err := from.List(ctx, &near, client.MatchingFields{IndexVolumeHandle: handleBucket(handle)},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the PersistentVolumes with handle %q: %w", handle, err)
	}
	for i := range near.Items {
		if has(&near.Items[i]) {
			all = append(all, &near.Items[i])
		}
	}
	for _, pv := range own {
		if !slices.ContainsFunc(all, func(shown *corev1.PersistentVolume) bool { return shown.Name == pv.Name }) {
			all = append(all, pv)
		}
	}
	return all, nil
}

// WithHandle reads the named volumes live, which are few, and returns those of the driver with the
// handle.
func WithHandle(
	ctx context.Context, live client.Reader, driver, handle string, names []string,
) (all []*corev1.PersistentVolume, err error) {
	for _, name := range names {
		now, err := kube.Get(ctx, live, client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
		if err != nil {
			return nil, err
		}
		if now != nil && reclaim.Handle(now, driver) == handle {
			all = append(all, now)
		}
	}
	return all, nil
}

// NamesOf returns the names of volumes.
func NamesOf(volumes []*corev1.PersistentVolume) (names []string) {
	for _, pv := range volumes {
		names = append(names, pv.Name)
	}
	return names
}

// claimProof reads whether the volume's claim exists. A claim that the cache does not have is a
// case of its own: its deletion causes no event.
func claimProof(ctx context.Context, from kube.Readers, pv *corev1.PersistentVolume) (reclaim.Proof, error) {
	proof, err := liveProof(ctx, from.Live, pv)
	if err != nil || proof != reclaim.ClaimExists {
		return proof, err
	}
	shown, err := kube.Get(ctx, from.Cached, objects.ClaimOf(pv), &corev1.PersistentVolumeClaim{})
	if err == nil && reclaim.IsClaimUncached(pv.Spec.ClaimRef, shown) {
		proof = reclaim.ClaimUncached
	}
	return proof, err
}

// liveProof reads the claim live, since the cache may be older than the claim and data depends on
// the answer (I3).
func liveProof(ctx context.Context, live client.Reader, pv *corev1.PersistentVolume) (reclaim.Proof, error) {
	if !reclaim.NeedsProof(pv) {
		return reclaim.NotRead, nil
	}
	claim, err := kube.Get(ctx, live, objects.ClaimOf(pv), &corev1.PersistentVolumeClaim{})
	if err != nil {
		return reclaim.NotRead, err
	}
	return reclaim.ProofOf(pv, claim), nil
}
