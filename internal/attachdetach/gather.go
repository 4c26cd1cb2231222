package attachdetach

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

// Memory is the state of this process about one volume, beyond the API objects. Each
// function may be nil.
type Memory struct {
	Rules attachment.Rules
	// Gather and Node read an object as new as this process's last write to it; nil for as the
	// reader has it.
	Attachment func(ctx context.Context, name string) (*storagev1.VolumeAttachment, error)
	Node       func(ctx context.Context, name string) (*corev1.Node, error)
	// Volume reads a PersistentVolume live; nil for as the reader has it.
	Volume func(ctx context.Context, name string) (*corev1.PersistentVolume, error)
	// Unseen are this process's VolumeAttachments that the cache may not show yet.
	Unseen func(func(*storagev1.VolumeAttachment) bool) []*storagev1.VolumeAttachment
	// Confirmed is for [attachment.Snapshot.Confirmed].
	Confirmed func(types.UID) bool
}

// Gather gathers the inputs of the decision about one volume on all of its nodes.
func Gather(
	ctx context.Context, from client.Reader, key attachment.Key, m Memory,
) (attachment.Snapshot, error) {
	g := attachmentGather{from: from, memory: m, seen: map[string]bool{}, s: attachment.Snapshot{
		Key: key, Rules: m.Rules, Nodes: map[string]*corev1.Node{}, Confirmed: map[types.UID]bool{},
		Bound: map[string]bool{}, Orphaned: map[types.UID]bool{},
	}}
	var err error
	if g.s.Driver, err = kube.Get(ctx, from, types.NamespacedName{Name: key.Driver},
		&storagev1.CSIDriver{}); err != nil {
		return g.s, err
	}
	for _, step := range []func(context.Context) error{
		g.volumes, g.inline, g.attachments, g.listing, g.orphans, g.nodes,
	} {
		if err := step(ctx); err != nil {
			return g.s, err
		}
	}
	return g.s, nil
}

// attachmentGather collects one snapshot.
type attachmentGather struct {
	from   client.Reader
	memory Memory
	s      attachment.Snapshot
	seen   map[string]bool // names of VolumeAttachments
}

// volumes reads the volumes with the handle, and the pods of their claims.
func (g *attachmentGather) volumes(ctx context.Context) error {
	var list corev1.PersistentVolumeList
	if err := g.from.List(ctx, &list, client.MatchingFields{IndexAttachedHandle: g.s.Key.String()}); err != nil {
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
func (g *attachmentGather) pods(ctx context.Context, pv *corev1.PersistentVolume) error {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	claim, err := kube.Get(ctx, g.from, name, &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil || claim.UID != ref.UID || claim.Spec.VolumeName != pv.Name ||
		claim.Status.Phase != corev1.ClaimBound {
		return err
	}
	g.s.Bound[pv.Name] = true
	var list corev1.PodList
	if err := g.from.List(ctx, &list, client.InNamespace(ref.Namespace),
		client.MatchingFields{IndexAttachedClaim: ref.Name}); err != nil {
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
func (g *attachmentGather) inline(ctx context.Context) error {
	var list corev1.PodList
	if err := g.from.List(ctx, &list, client.MatchingFields{IndexAttachedInline: g.s.Key.String()}); err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if !slices.ContainsFunc(g.s.Pods, func(p *corev1.Pod) bool { return p.UID == pod.UID }) {
			g.s.Pods = append(g.s.Pods, pod)
		}
		for _, pv := range InlineVolumes(pod) {
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
func (g *attachmentGather) attachments(ctx context.Context) error {
	for _, pv := range g.s.Volumes {
		if err := g.list(ctx, client.MatchingFields{kube.IndexAttachmentVolume: pv.Name}); err != nil {
			return err
		}
	}
	return g.list(ctx, client.MatchingFields{IndexAttachmentHandle: g.s.Key.String()})
}

func (g *attachmentGather) list(ctx context.Context, matching client.MatchingFields) error {
	var list storagev1.VolumeAttachmentList
	if err := g.from.List(ctx, &list, matching); err != nil {
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
func (g *attachmentGather) attachment(ctx context.Context, name string) error {
	if g.seen[name] {
		return nil
	}
	g.seen[name] = true
	va, err := g.readAttachment(ctx, name)
	if err == nil && va != nil && va.Spec.Attacher == g.s.Key.Driver {
		g.s.Attachments = append(g.s.Attachments, va)
		g.s.Confirmed[va.UID] = g.memory.Confirmed != nil && g.memory.Confirmed(va.UID)
	}
	return err
}

// listing reads the nodes that name the volume, and the VolumeAttachments that belong to them by
// name: after the PersistentVolume is gone, a hash of node, driver and handle finds them.
func (g *attachmentGather) listing(ctx context.Context) error {
	var list corev1.NodeList
	if err := g.from.List(ctx, &list, client.MatchingFields{IndexListed: g.s.Key.String()}); err != nil {
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
		if err := g.attachment(ctx, names.AttachmentName(
			g.s.Key.Handle, g.s.Key.Driver, pod.Spec.NodeName,
		)); err != nil {
			return err
		}
	}
	for _, own := range g.unseen() {
		if err := g.attachment(ctx, own.Name); err != nil {
			return err
		}
	}
	return nil
}

// orphans reads the PersistentVolumes of VolumeAttachments on the pods' nodes that are none of the
// volumes. On other nodes it does not matter: there the volume is detached.
func (g *attachmentGather) orphans(ctx context.Context) error {
	for _, va := range g.s.Attachments {
		name := va.Spec.Source.PersistentVolumeName
		isVolume := func(pv *corev1.PersistentVolume) bool { return pv.Name == *name }
		if name == nil || slices.ContainsFunc(g.s.Volumes, isVolume) ||
			!slices.ContainsFunc(
				g.s.Pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == va.Spec.NodeName },
			) {
			continue
		}
		pv, err := g.volume(ctx, *name)
		if err != nil {
			return err
		}
		key := attachment.Key{} // stays empty for a PersistentVolume that does not exist or is not CSI
		if pv != nil {
			key, _ = KeyOfVolume(pv)
		}
		g.s.Orphaned[va.UID] = key != g.s.Key
	}
	return nil
}

func (g *attachmentGather) volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	if g.memory.Volume != nil {
		return g.memory.Volume(ctx, name)
	}
	return kube.Get(ctx, g.from, types.NamespacedName{Name: name}, &corev1.PersistentVolume{})
}

// isOwn reports whether a VolumeAttachment that this process has written is for the volume.
func (g *attachmentGather) isOwn(va *storagev1.VolumeAttachment) bool {
	return va.Name == names.AttachmentName(g.s.Key.Handle, g.s.Key.Driver, va.Spec.NodeName)
}

// nodes reads each node that is named so far. One that does not exist is left out.
func (g *attachmentGather) nodes(ctx context.Context) error {
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

func (g *attachmentGather) readAttachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error) {
	if g.memory.Attachment != nil {
		return g.memory.Attachment(ctx, name)
	}
	return kube.Get(ctx, g.from, types.NamespacedName{Name: name}, &storagev1.VolumeAttachment{})
}

func (g *attachmentGather) node(ctx context.Context, name string) (*corev1.Node, error) {
	if g.memory.Node != nil {
		return g.memory.Node(ctx, name)
	}
	return kube.Get(ctx, g.from, types.NamespacedName{Name: name}, &corev1.Node{})
}

// unseen are this process's VolumeAttachments of the volume that the cache may not show yet.
func (g *attachmentGather) unseen() []*storagev1.VolumeAttachment {
	if g.memory.Unseen == nil {
		return nil
	}
	return g.memory.Unseen(g.isOwn)
}
