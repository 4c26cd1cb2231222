package attachdetach

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/attachment"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/kube"
)

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key Key) (attachment.Snapshot, error) {
	g := gathering{Controller: c, seen: map[string]bool{}, s: attachment.Snapshot{
		Key: key, Rules: c.Rules, Nodes: map[string]*corev1.Node{}, Confirmed: map[types.UID]bool{},
	}}
	if key.Attachment != "" {
		return g.orphan(ctx)
	}
	var err error
	if g.s.Driver, err = kube.Get(ctx, c.Cached, types.NamespacedName{Name: key.Driver},
		&storagev1.CSIDriver{}); err != nil {
		return g.s, err
	}
	for _, step := range []func(context.Context) error{g.volumes, g.inline, g.attachments, g.listing, g.nodes} {
		if err := step(ctx); err != nil {
			return g.s, err
		}
	}
	return g.s, nil
}

// gathering collects one snapshot.
type gathering struct {
	*Controller
	s    attachment.Snapshot
	seen map[string]bool // names of VolumeAttachments
}

// volumes reads the volumes with the handle, and the pods of their claims.
func (g *gathering) volumes(ctx context.Context) error {
	var list corev1.PersistentVolumeList
	if err := g.Cached.List(ctx, &list, client.MatchingFields{IndexHandle: g.s.Key.String()}); err != nil {
		return err
	}
	for i := range list.Items {
		pv := &list.Items[i]
		g.s.Volumes = append(g.s.Volumes, pv)
		if err := g.pods(ctx, pv); err != nil {
			return err
		}
	}
	return nil
}

// pods reads the pods of the claim that the volume is bound to (C2, 4.2).
func (g *gathering) pods(ctx context.Context, pv *corev1.PersistentVolume) error {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	claim, err := kube.Get(ctx, g.Cached, name, &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil || claim.UID != ref.UID || claim.Spec.VolumeName != pv.Name ||
		claim.Status.Phase != corev1.ClaimBound {
		return err
	}
	var list corev1.PodList
	if err := g.Cached.List(ctx, &list, client.InNamespace(ref.Namespace),
		client.MatchingFields{IndexClaim: ref.Name}); err != nil {
		return err
	}
	for i := range list.Items {
		if pod := &list.Items[i]; isUser(pod, claim) {
			g.s.Pods = append(g.s.Pods, pod)
		}
	}
	return nil
}

// inline reads the pods that name the volume in place.
func (g *gathering) inline(ctx context.Context) error {
	var list corev1.PodList
	if err := g.Cached.List(ctx, &list, client.MatchingFields{IndexInline: g.s.Key.String()}); err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if !slices.ContainsFunc(g.s.Pods, func(p *corev1.Pod) bool { return p.UID == pod.UID }) {
			g.s.Pods = append(g.s.Pods, pod)
		}
		for _, pv := range inlineVolumes(pod) {
			if pv.Spec.CSI.Driver == g.s.Key.Driver && pv.Spec.CSI.VolumeHandle == g.s.Key.Handle {
				g.s.Inline = pv
			}
		}
	}
	return nil
}

// isUser reports whether a pod that names the claim uses it: the claim of an ephemeral volume must
// be the pod's own.
func isUser(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name:
			return true
		case v.Ephemeral != nil && pod.Name+"-"+v.Name == claim.Name && metav1.IsControlledBy(claim, pod):
			return true
		}
	}
	return false
}

// attachments reads the VolumeAttachments of the volumes, and those that remember the handle.
func (g *gathering) attachments(ctx context.Context) error {
	for _, pv := range g.s.Volumes {
		if err := g.list(ctx, client.MatchingFields{IndexVolume: pv.Name}); err != nil {
			return err
		}
	}
	return g.list(ctx, client.MatchingFields{IndexRemembered: g.s.Key.String()})
}

func (g *gathering) list(ctx context.Context, matching client.MatchingFields) error {
	var list storagev1.VolumeAttachmentList
	if err := g.Cached.List(ctx, &list, matching); err != nil {
		return err
	}
	for i := range list.Items {
		if err := g.attachment(ctx, list.Items[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// attachment adds one VolumeAttachment, as new as this process's last write to it.
func (g *gathering) attachment(ctx context.Context, name string) error {
	if g.seen[name] {
		return nil
	}
	g.seen[name] = true
	va, err := g.readAttachment(ctx, name)
	if err == nil && va != nil && va.Spec.Attacher == g.s.Key.Driver {
		g.s.Attachments = append(g.s.Attachments, va)
		g.s.Confirmed[va.UID] = g.isConfirmed(va.UID)
	}
	return err
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

// listing reads the nodes that name the volume, and the VolumeAttachments that belong to them by
// name: after the PersistentVolume is gone, a hash of node, driver and handle finds them.
func (g *gathering) listing(ctx context.Context) error {
	var list corev1.NodeList
	if err := g.Cached.List(ctx, &list, client.MatchingFields{IndexListed: g.s.Key.String()}); err != nil {
		return err
	}
	for i := range list.Items {
		name := list.Items[i].Name
		g.s.Nodes[name] = nil
		if err := g.attachment(ctx, names.AttachmentName(g.s.Key.Handle, g.s.Key.Driver, name)); err != nil {
			return err
		}
	}
	for _, pod := range g.s.Pods { // a VolumeAttachment that this process has just created may not be in the cache
		if pod.Spec.NodeName == "" {
			continue
		}
		if err := g.attachment(ctx, names.AttachmentName(g.s.Key.Handle, g.s.Key.Driver, pod.Spec.NodeName)); err != nil {
			return err
		}
	}
	for _, own := range g.Controller.attachments.Unseen(g.isOwn) {
		if err := g.attachment(ctx, own.Name); err != nil {
			return err
		}
	}
	return nil
}

// isOwn reports whether a VolumeAttachment that this process has written is for the volume.
func (g *gathering) isOwn(va *storagev1.VolumeAttachment) bool {
	return va.Name == names.AttachmentName(g.s.Key.Handle, g.s.Key.Driver, va.Spec.NodeName)
}

// nodes reads each node that is named so far. One that does not exist is left out.
func (g *gathering) nodes(ctx context.Context) error {
	all := map[string]bool{}
	for name := range g.s.Nodes {
		all[name] = true
	}
	for _, pod := range g.s.Pods {
		all[pod.Spec.NodeName] = pod.Spec.NodeName != ""
	}
	for _, va := range g.s.Attachments {
		all[va.Spec.NodeName] = true
	}
	g.s.Nodes = map[string]*corev1.Node{}
	for name, named := range all {
		if !named {
			continue
		}
		node, err := g.node(ctx, name)
		if err != nil {
			return err
		}
		if node != nil {
			g.s.Nodes[name] = node
		}
	}
	return nil
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

// orphan reads a VolumeAttachment whose handle is not known. One whose handle is known by now is
// worked on under that key.
func (g *gathering) orphan(ctx context.Context) (attachment.Snapshot, error) {
	va, err := g.readAttachment(ctx, g.s.Key.Attachment)
	if err != nil || va == nil {
		return g.s, err
	}
	key, ok := g.keyOfAttachment(ctx, va)
	if !ok || key.Attachment == "" {
		if ok {
			g.enqueue(key)
		}
		return g.s, nil
	}
	g.s.Attachments = []*storagev1.VolumeAttachment{va}
	if !g.isUnusedLong(va.UID) {
		return g.s, nil
	}
	pv, err := kube.Get(
		ctx,
		g.Live,
		types.NamespacedName{Name: *va.Spec.Source.PersistentVolumeName},
		&corev1.PersistentVolume{},
	)
	if err == nil && pv == nil {
		g.s.Audited = attachment.FoundUnused
	}
	return g.s, err
}

func (c *Controller) isUnusedLong(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, seen := c.orphans[uid]
	return seen && c.Clock.Now().Sub(since) >= max(c.AuditEvery, time.Second)
}

// keyOfAttachment returns the key under which a VolumeAttachment is worked on: its volume's, that
// of the handle it remembers, that of a volume that its node names and whose hash is its name, or
// itself. A VolumeAttachment of a volume that pods name in place has its handle.
func (c *Controller) keyOfAttachment(ctx context.Context, va *storagev1.VolumeAttachment) (Key, bool) {
	volume := va.Spec.Source.PersistentVolumeName
	if volume == nil {
		return keyOfInline(va)
	}
	pv, err := kube.Get(ctx, c.Cached, types.NamespacedName{Name: *volume}, &corev1.PersistentVolume{})
	if err == nil && pv != nil {
		if key, ok := keyOfVolume(pv); ok && key.Driver == va.Spec.Attacher {
			return key, true
		}
		return Key{}, false
	}
	if handle := va.Annotations[names.AnnVolumeHandle]; handle != "" {
		return Key{Driver: va.Spec.Attacher, Handle: handle}, true
	}
	if node, err := c.node(ctx, va.Spec.NodeName); err == nil && node != nil {
		for _, key := range volumesOfNode(node) {
			if key.Driver == va.Spec.Attacher && names.AttachmentName(key.Handle, key.Driver, node.Name) == va.Name {
				return key, true
			}
		}
	}
	return Key{Driver: va.Spec.Attacher, Attachment: va.Name}, true
}

// keysOfPod are the volumes of a pod's bound claims, and those that it names in place.
func (c *Controller) keysOfPod(ctx context.Context, pod *corev1.Pod) []Key {
	keys := inlineKeys(pod)
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
	if key, ok := keyOfVolume(pv); ok {
		return []Key{key}
	}
	return nil
}
