package attachdetach

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// Gather reads the inputs of the decision about one volume on all of its nodes.
func Gather(
	ctx context.Context, from client.Reader, key attachment.Key, rules attachment.Rules, memory *Memory,
) (attachment.Snapshot, error) {
	g := gather{from: from, seen: map[string]bool{}, s: attachment.Snapshot{
		Key: key, Rules: rules, Nodes: map[string]*corev1.Node{}, Bound: map[string]bool{},
		Confirmed: map[types.UID]bool{}, Unwanted: memory.unwantedSince(key),
	}}
	var err error
	if g.s.Driver, err = kube.Get(ctx, from, types.NamespacedName{Name: key.Driver},
		&storagev1.CSIDriver{}); err != nil {
		return g.s, err
	}
	for _, step := range []func(context.Context) error{g.volumes, g.inline, g.attachments, g.byName, g.nodes} {
		if err := step(ctx); err != nil {
			return g.s, err
		}
	}
	for _, va := range g.s.Attachments {
		g.s.Confirmed[va.UID] = memory.isConfirmed(va.UID)
	}
	return g.s, nil
}

// Read reads the PersistentVolumes that a decision asks for, from the API server.
func Read(
	ctx context.Context, live client.Reader, s attachment.Snapshot, refs []verdict.Ref,
) (attachment.Snapshot, error) {
	volumes := maps.Clone(s.Live)
	if volumes == nil {
		volumes = map[string]*corev1.PersistentVolume{}
	}
	for _, ref := range refs {
		pv, err := kube.Get(ctx, live, types.NamespacedName{Name: ref.Name}, &corev1.PersistentVolume{})
		if err != nil {
			return s, err
		}
		volumes[ref.Name] = pv
	}
	s.Live = volumes
	return s, nil
}

// gather collects one snapshot.
type gather struct {
	from client.Reader
	s    attachment.Snapshot
	seen map[string]bool // names of VolumeAttachments
}

// volumes reads the volumes with the handle, and the pods of their claims.
func (g *gather) volumes(ctx context.Context) error {
	var list corev1.PersistentVolumeList
	near := client.MatchingFields{IndexAttachedHandle: kube.HandleBucket(g.s.Key.Handle)}
	if err := g.from.List(ctx, &list, near, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		pv := &list.Items[i]
		if key, ok := attachment.KeyOfVolume(pv); !ok || key != g.s.Key {
			continue
		}
		g.s.Volumes = append(g.s.Volumes, pv)
		if err := g.pods(ctx, pv); err != nil {
			return err
		}
	}
	return nil
}

// pods reads the pods of the claim that the volume is bound to (C2, 4.2).
func (g *gather) pods(ctx context.Context, pv *corev1.PersistentVolume) error {
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
func (g *gather) inline(ctx context.Context) error {
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
func (g *gather) attachments(ctx context.Context) error {
	which := []client.MatchingFields{{IndexAttachmentHandle: g.s.Key.String()}}
	for _, pv := range g.s.Volumes {
		which = append(which, client.MatchingFields{kube.IndexAttachmentVolume: pv.Name})
	}
	for _, matching := range which {
		var list storagev1.VolumeAttachmentList
		if err := g.from.List(ctx, &list, matching); err != nil {
			return err
		}
		for i := range list.Items {
			if va := &list.Items[i]; !g.seen[va.Name] {
				g.add(va)
			}
		}
	}
	return nil
}

func (g *gather) add(va *storagev1.VolumeAttachment) {
	g.seen[va.Name] = true
	if va.Spec.Attacher == g.s.Key.Driver {
		g.s.Attachments = append(g.s.Attachments, va)
	}
}

// byName reads the nodes that name the volume, and the VolumeAttachments there and on the pods' nodes by
// name: after their PersistentVolume is gone, a hash of node, driver and handle finds them.
func (g *gather) byName(ctx context.Context) error {
	var list corev1.NodeList
	if err := g.from.List(ctx, &list, client.MatchingFields{IndexListed: g.s.Key.String()}); err != nil {
		return err
	}
	for i := range list.Items {
		g.s.Nodes[list.Items[i].Name] = &list.Items[i]
	}
	on := slices.Collect(maps.Keys(g.s.Nodes))
	for _, pod := range g.s.Pods {
		on = append(on, pod.Spec.NodeName)
	}
	for _, node := range on {
		name := names.AttachmentName(g.s.Key.Handle, g.s.Key.Driver, node)
		if node == "" || g.seen[name] {
			continue
		}
		g.seen[name] = true
		va, err := kube.Get(ctx, g.from, types.NamespacedName{Name: name}, &storagev1.VolumeAttachment{})
		if err != nil {
			return err
		}
		if va != nil {
			g.add(va)
		}
	}
	return nil
}

// nodes reads the nodes of pods and VolumeAttachments. One that does not exist is left out.
func (g *gather) nodes(ctx context.Context) error {
	var on []string
	for _, pod := range g.s.Pods {
		on = append(on, pod.Spec.NodeName)
	}
	for _, va := range g.s.Attachments {
		on = append(on, va.Spec.NodeName)
	}
	for _, name := range on {
		if name == "" || g.s.Nodes[name] != nil {
			continue
		}
		node, err := kube.Get(ctx, g.from, types.NamespacedName{Name: name}, &corev1.Node{})
		if err != nil {
			return err
		}
		if node != nil {
			g.s.Nodes[name] = node
		}
	}
	return nil
}
