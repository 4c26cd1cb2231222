package attachdetach

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key Key) (attachment.Snapshot, error) {
	if key.Attachment != "" {
		return c.orphan(ctx, key)
	}
	return Gather(ctx, c.Cached, key, Memory{
		Rules: c.Rules, Attachment: c.readAttachment, Node: c.node, Unseen: c.attachments.Unseen,
		Confirmed: c.isConfirmed,
		Volume:    c.liveVolume,
	})
}

// liveVolume reads a PersistentVolume whose absence is to have an effect.
func (c *Controller) liveVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	return kube.Get(ctx, c.Live, types.NamespacedName{Name: name}, &corev1.PersistentVolume{})
}

func (c *Controller) isConfirmed(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.confirmed[uid]
}

func (c *Controller) readAttachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error) {
	key := types.NamespacedName{Name: name}
	va, found, err := c.attachments.Read(key, func() (*storagev1.VolumeAttachment, bool, error) {
		va, err := kube.Get(ctx, c.Cached, key, &storagev1.VolumeAttachment{})
		return va, va != nil, err
	})
	if err != nil || !found {
		return nil, err
	}
	switch {
	case c.gone.Has(va.UID):
		return nil, nil
	case va.DeletionTimestamp == nil && c.deleted.Has(va.UID):
		va = va.DeepCopy()
		va.DeletionTimestamp = &metav1.Time{Time: c.Clock.Now()}
	}
	return va, nil
}

func (c *Controller) node(ctx context.Context, name string) (*corev1.Node, error) {
	key := types.NamespacedName{Name: name}
	node, found, err := c.nodes.Read(key, func() (*corev1.Node, bool, error) {
		node, err := kube.Get(ctx, c.Cached, key, &corev1.Node{})
		return node, node != nil, err
	})
	if err != nil || !found {
		return nil, err
	}
	return node, nil
}

// orphan reads a VolumeAttachment whose handle is not known.
func (c *Controller) orphan(ctx context.Context, of Key) (attachment.Snapshot, error) {
	s := attachment.Snapshot{Key: of, Rules: c.Rules}
	va, err := c.readAttachment(ctx, of.Attachment)
	if err != nil || va == nil {
		return s, err
	}
	key, ok := c.keyOfAttachment(ctx, va)
	if !ok {
		return s, nil
	}
	if key.Attachment == "" {
		s.Known = &key
		return s, nil
	}
	s.Attachments = []*storagev1.VolumeAttachment{va}
	if !c.isUnusedLong(va.UID) {
		return s, nil
	}
	name := types.NamespacedName{Name: *va.Spec.Source.PersistentVolumeName}
	pv, err := kube.Get(ctx, c.Live, name, &corev1.PersistentVolume{})
	if err == nil && pv == nil {
		s.Audited = attachment.FoundUnused
	}
	return s, err
}

func (c *Controller) isUnusedLong(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, seen := c.orphans[uid]
	return seen && c.Clock.Now().Sub(since) >= max(c.AuditEvery, time.Second)
}

// keyOfAttachment returns the key under which a VolumeAttachment is worked on: its volume's, that
// of the handle it remembers, that of a volume that its node or a pod there names and whose hash is
// its name, or itself. A PersistentVolume that was made again with another handle is not its volume.
// A VolumeAttachment of a volume that pods name in place has its handle.
func (c *Controller) keyOfAttachment(ctx context.Context, va *storagev1.VolumeAttachment) (Key, bool) {
	volume := va.Spec.Source.PersistentVolumeName
	if volume == nil {
		return KeyOfInline(va)
	}
	handle := va.Annotations[names.AnnVolumeHandle]
	pv, err := kube.Get(ctx, c.Cached, types.NamespacedName{Name: *volume}, &corev1.PersistentVolume{})
	ours := handle != "" && names.AttachmentName(handle, va.Spec.Attacher, va.Spec.NodeName) == va.Name
	if err == nil && pv != nil && !ours {
		if key, ok := KeyOfVolume(pv); ok && key.Driver == va.Spec.Attacher {
			return key, true
		}
		return Key{}, false
	}
	if handle != "" {
		return Key{Driver: va.Spec.Attacher, Handle: handle}, true
	}
	for _, key := range c.keysOnNode(ctx, va.Spec.NodeName) {
		if key.Driver == va.Spec.Attacher && names.AttachmentName(key.Handle, key.Driver, va.Spec.NodeName) == va.Name {
			return key, true
		}
	}
	return Key{Driver: va.Spec.Attacher, Attachment: va.Name}, true
}

// keysOnNode are the volumes that the node lists and those of its pods.
func (c *Controller) keysOnNode(ctx context.Context, name string) (keys []Key) {
	if node, err := c.node(ctx, name); err == nil && node != nil {
		keys = slices.Collect(maps.Values(VolumesOfNode(node)))
	}
	var pods corev1.PodList
	if err := c.Cached.List(ctx, &pods, client.MatchingFields{IndexAttachedPodNode: name}); err != nil {
		return keys // the cache has no such error once it is started
	}
	for i := range pods.Items {
		keys = append(keys, c.keysOfPod(ctx, &pods.Items[i])...)
	}
	return keys
}

// keysOfPod are the volumes of a pod's bound claims, and those that it names in place.
func (c *Controller) keysOfPod(ctx context.Context, pod *corev1.Pod) []Key {
	keys := InlineKeys(pod)
	for _, name := range protection.ClaimNames(pod) {
		claim, err := kube.Get(
			ctx,
			c.Cached,
			types.NamespacedName{Namespace: pod.Namespace, Name: name},
			&corev1.PersistentVolumeClaim{},
		)
		if err == nil && claim != nil {
			keys = append(keys, c.keysOfClaim(ctx, claim)...)
		}
	}
	return keys
}

func (c *Controller) keysOfClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) []Key {
	if claim.Spec.VolumeName == "" {
		return nil
	}
	pv, err := kube.Get(ctx, c.Cached, types.NamespacedName{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
	if err != nil || pv == nil {
		return nil
	}
	if key, ok := KeyOfVolume(pv); ok {
		return []Key{key}
	}
	return nil
}
