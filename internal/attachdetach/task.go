package attachdetach

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key Key) (attachment.Snapshot, error) {
	if key.Attachment == "" {
		listing, unlisting := c.status.changes(key.UniqueName()) // before the node, which has them by then
		s, err := Gather(ctx, c.read, key, c.Rules, &c.memory)
		s.Listing, s.Unlisting = listing, unlisting
		return s, err
	}
	s := attachment.Snapshot{Key: key, Rules: c.Rules}
	name := types.NamespacedName{Name: key.Attachment}
	va, err := kube.Get(ctx, c.read, name, &storagev1.VolumeAttachment{})
	if err != nil || va == nil {
		return s, err
	}
	switch known, ok := c.keyOfAttachment(ctx, va); {
	case !ok:
	case known.Attachment == "":
		s.Known = &known
	default:
		s.Attachments = []*storagev1.VolumeAttachment{va}
		s.UnusedSince = c.memory.orphanSince(va.UID)
	}
	return s, nil
}

// Read implements reconcile.Reader.
func (c *Controller) Read(
	ctx context.Context, s attachment.Snapshot, refs []verdict.Ref,
) (attachment.Snapshot, error) {
	return Read(ctx, c.Live, s, refs)
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
	pv, err := kube.Get(ctx, c.read, types.NamespacedName{Name: *volume}, &corev1.PersistentVolume{})
	ours := handle != "" && names.AttachmentName(handle, va.Spec.Attacher, va.Spec.NodeName) == va.Name
	if err == nil && pv != nil && !ours {
		if key, ok := attachment.KeyOfVolume(pv); ok && key.Driver == va.Spec.Attacher {
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
	node, err := kube.Get(ctx, c.read, types.NamespacedName{Name: name}, &corev1.Node{})
	if err == nil && node != nil {
		keys = slices.Collect(maps.Values(VolumesOfNode(node)))
	}
	var pods corev1.PodList
	if err := c.read.List(ctx, &pods, client.MatchingFields{IndexAttachedPodNode: name}); err != nil {
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
			c.read,
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
	pv, err := kube.Get(ctx, c.read, types.NamespacedName{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
	if err != nil || pv == nil {
		return nil
	}
	if key, ok := attachment.KeyOfVolume(pv); ok {
		return []Key{key}
	}
	return nil
}
