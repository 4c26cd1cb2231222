package reclaim

import (
	"context"
	"fmt"
	"slices"

	"github.com/purser-csi/purser/internal/kube"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/migration"
	"github.com/purser-csi/purser/internal/core/reclaim"
)

// Gather implements reconcile.Task. It reads the objects around the volume only when the volume may
// be reclaimed.
func (c *Controller) Gather(ctx context.Context, name string) (s reclaim.Snapshot, err error) {
	s = reclaim.Snapshot{Name: name, Driver: c.Driver, Protector: c.DropProtection}
	if s.Volume, s.Fresh, err = c.volume(ctx, name); err != nil {
		return s, err
	}
	s.InTree = migration.IsInTree(s.Volume)
	if s.Volume, err = migration.ToCSI(s.Volume); err != nil { // D-11
		return s, err
	}
	if s.Fresh {
		s.Claim = reclaim.ClaimGone
	}
	s.Fresh = s.Fresh || s.Volume != nil && c.sawRelease(s.Volume)
	if s.Volume == nil || reclaim.Owner(s.Volume) != c.Driver.Name || !reclaim.MayReclaim(s.Volume) {
		return s, nil
	}
	s.Now = c.Clock.Now()
	for _, look := range []func(context.Context, *reclaim.Snapshot) error{
		c.claim, c.twins, c.calls, c.attachments,
		c.class,
	} {
		if err := look(ctx, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// volume returns the volume of the name; nil when nothing is left to do for it. When the cache is
// too old to show a write whose answer was lost, a later event shows it.
func (c *Controller) volume(ctx context.Context, name string) (pv *corev1.PersistentVolume, fresh bool, err error) {
	released := c.released.before(name)
	newest, found, err := c.Volumes.Read(client.ObjectKey{Name: name}, func() (*corev1.PersistentVolume, bool, error) {
		cached, err := kube.Get(ctx, c.Cached, types.NamespacedName{Name: name}, &corev1.PersistentVolume{})
		return cached, cached != nil, err
	})
	if err != nil || !found || released.finishes(newest) {
		return nil, false, err
	}
	if pv, fresh, err = c.asItIs(ctx, newest); err != nil || pv == nil || released.finishes(pv) {
		return nil, false, err
	}
	return pv, fresh, nil
}

// asItIs returns the cached volume, or the live one where the cache is not fresh enough to delete it.
func (c *Controller) asItIs(
	ctx context.Context,
	cached *corev1.PersistentVolume,
) (now *corev1.PersistentVolume, fresh bool, err error) {
	switch reclaim.ViewOf(cached, c.Driver.Name, c.sawRelease(cached), c.Clock.Now()) {
	case reclaim.ViewSuffices:
		return cached, false, nil
	case reclaim.ViewIsFresh:
		return cached, true, nil
	case reclaim.ViewNeedsLive:
	}
	now, err = kube.Get(ctx, c.Live, client.ObjectKeyFromObject(cached), &corev1.PersistentVolume{})
	if err != nil || now == nil || now.UID != cached.UID { // another object of the name is enqueued by its own event
		return nil, false, err
	}
	return now, false, nil
}

// sawRelease reports whether the watch has shown the release of the volume, and no attempt has
// failed since.
func (c *Controller) sawRelease(pv *corev1.PersistentVolume) bool {
	return c.retries.Get(pv.Name).Failed == 0 && c.releases.have(pv)
}

// calls reads from the journal until when a previous leader may create the volume again, under the
// name of any PersistentVolume with its handle (D-37).
func (c *Controller) calls(ctx context.Context, s *reclaim.Snapshot) error {
	if err := c.Journal.Wait(ctx); err != nil {
		return err
	}
	for _, name := range withTwins(s) {
		if ends := c.Journal.CallsEnd(name); ends.After(s.CallsEnd) {
			s.CallsEnd = ends
		}
	}
	return nil
}

// attachments reads the VolumeAttachments of the volume and of all PersistentVolumes with its
// handle (D-16, D-37).
func (c *Controller) attachments(ctx context.Context, s *reclaim.Snapshot) error {
	if !c.attaches() {
		return nil
	}
	for _, name := range withTwins(s) {
		var attachments storagev1.VolumeAttachmentList
		if err := c.Cached.List(ctx, &attachments, client.MatchingFields{IndexVolume: name}); err != nil {
			return fmt.Errorf("read the VolumeAttachments of %q: %w", name, err)
		}
		for i := range attachments.Items {
			s.Attached = append(s.Attached, attachments.Items[i].Spec.NodeName)
		}
	}
	return nil
}

func withTwins(s *reclaim.Snapshot) []string {
	all := []string{s.Name}
	for _, twin := range s.Twins {
		all = append(all, twin.Volume.Name)
	}
	return all
}

// twins reads the other volumes with the same handle that the cache shows. Nearly always there are
// none.
func (c *Controller) twins(ctx context.Context, s *reclaim.Snapshot) error {
	others, err := c.others(ctx, s.Volume)
	if err != nil {
		return err
	}
	now, err := c.asTheyAre(ctx, c.handleOf(s.Volume), namesOf(others))
	if err != nil {
		return err
	}
	return c.twinsAre(ctx, s, now)
}

func (c *Controller) twinsAre(ctx context.Context, s *reclaim.Snapshot, all []*corev1.PersistentVolume) error {
	for _, pv := range all {
		proof, err := c.proof(ctx, pv)
		if err != nil {
			return err
		}
		s.Twins = append(s.Twins, reclaim.Twin{Volume: pv, Claim: proof})
	}
	return nil
}

// others returns the other volumes with the handle of a volume from the cache. The caller must not
// change them.
func (c *Controller) others(ctx context.Context, pv *corev1.PersistentVolume) ([]*corev1.PersistentVolume, error) {
	handle := c.handleOf(pv)
	if handle == "" {
		return nil, nil
	}
	all, err := c.remembered(ctx, handle)
	return slices.DeleteFunc(all, func(other *corev1.PersistentVolume) bool { return other.Name == pv.Name }), err
}

// remembered returns the volumes of the driver with a handle from the cache, and those that this
// process wrote and the cache does not show yet. The caller must not change them.
func (c *Controller) remembered(ctx context.Context, handle string) (all []*corev1.PersistentVolume, err error) {
	own := c.Volumes.Unseen(func(pv *corev1.PersistentVolume) bool { return c.handleOf(pv) == handle })
	var near corev1.PersistentVolumeList
	// Not copied: the caller only reads them.
	if err := c.Cached.List(ctx, &near, client.MatchingFields{IndexHandle: bucketOf(handle)},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the PersistentVolumes with handle %q: %w", handle, err)
	}
	for i := range near.Items {
		if pv := &near.Items[i]; c.handleOf(pv) == handle {
			all = append(all, pv)
		}
	}
	for _, pv := range own {
		if !slices.ContainsFunc(all, func(shown *corev1.PersistentVolume) bool { return shown.Name == pv.Name }) {
			all = append(all, pv)
		}
	}
	return all, nil
}

// Sharing returns the volumes of the driver with a handle from live reads, since a stale cache
// could cost data (D-37).
func (c *Controller) Sharing(ctx context.Context, handle string) ([]*corev1.PersistentVolume, error) {
	return c.sharing(ctx, handle, "", true)
}

// sharing is [Controller.Sharing] without the volume of one name. The cache is read after the list,
// for what this process wrote meanwhile. again says that the caller has asked before, so that the
// next list may wait.
func (c *Controller) sharing(ctx context.Context, handle, but string, again bool) ([]*corev1.PersistentVolume, error) {
	listed, err := c.holders.of(ctx, handle, again)
	if err != nil {
		return nil, err
	}
	remembered, err := c.remembered(ctx, handle)
	if err != nil {
		return nil, err
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(listed, namesOf(remembered)))))
	return c.asTheyAre(ctx, handle, slices.DeleteFunc(all, func(name string) bool { return name == but }))
}

// asTheyAre reads the named volumes live, which are few, and returns those with the handle.
func (c *Controller) asTheyAre(
	ctx context.Context,
	handle string,
	names []string,
) (all []*corev1.PersistentVolume, err error) {
	for _, name := range names {
		now, err := kube.Get(ctx, c.allVolumes(), client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
		if err != nil {
			return nil, err
		}
		if now != nil && c.handleOf(now) == handle {
			all = append(all, now)
		}
	}
	return all, nil
}

func namesOf(volumes []*corev1.PersistentVolume) (names []string) {
	for _, pv := range volumes {
		names = append(names, pv.Name)
	}
	return names
}

func (c *Controller) class(ctx context.Context, s *reclaim.Snapshot) (err error) {
	if name := reclaim.ClassToRead(s.Volume); name != "" {
		s.Class, err = kube.Get(ctx, c.Cached, types.NamespacedName{Name: name}, &storagev1.StorageClass{})
	}
	return err
}

// claim reads the claim unless this process has seen the release, so that an ordinary deletion
// costs no read.
func (c *Controller) claim(ctx context.Context, s *reclaim.Snapshot) (err error) {
	if s.Claim != reclaim.NotAsked {
		return nil
	}
	if s.Claim, err = c.proof(ctx, s.Volume); err != nil || s.Claim != reclaim.ClaimExists {
		return err
	}
	ref := s.Volume.Spec.ClaimRef
	shown, err := kube.Get(
		ctx,
		c.Cached,
		types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name},
		&corev1.PersistentVolumeClaim{},
	)
	if err == nil && reclaim.IsClaimUnseen(ref, shown) {
		s.Claim = reclaim.ClaimUnseen
	}
	return err
}

// proof reads the claim live, since the cache may be older than the claim and data depends on the
// answer (I3).
func (c *Controller) proof(ctx context.Context, pv *corev1.PersistentVolume) (reclaim.Proof, error) {
	if !reclaim.NeedsProof(pv) {
		return reclaim.NotAsked, nil
	}
	ref := pv.Spec.ClaimRef
	claim, err := kube.Get(
		ctx,
		c.Live,
		types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name},
		&corev1.PersistentVolumeClaim{},
	)
	if err != nil {
		return reclaim.NotAsked, err
	}
	return reclaim.ProofOf(pv, claim), nil
}
