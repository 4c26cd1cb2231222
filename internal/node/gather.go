package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// The indexes: pods by node, by uid and by claim, volumes by driver and handle.
const (
	indexNode   = "mountedNode"
	indexUID    = "mountedUID"
	indexClaim  = "mountedClaim"
	indexHandle = "mountedHandle"
)

// Indexes are what an agent needs of the cache. Agents of several nodes share them.
func Indexes() []kube.Index {
	handle := func(pv *corev1.PersistentVolume) []string {
		if pv.Spec.CSI == nil {
			return nil
		}
		return []string{keyOfVolume(pv).String()}
	}
	return []kube.Index{
		kube.IndexBy(indexNode, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }),
		kube.IndexBy(indexUID, func(p *corev1.Pod) []string { return []string{string(p.UID)} }),
		kube.IndexBy(indexClaim, protection.ClaimNames),
		kube.IndexBy(indexHandle, handle),
	}
}

func keyOfVolume(pv *corev1.PersistentVolume) mounting.Key {
	return mounting.Key{Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle}
}

// Gather implements reconcile.Task. It reads nothing from the API server.
func (a *Agent) Gather(ctx context.Context, key mounting.Key) (mounting.Snapshot, error) {
	s := mounting.Snapshot{
		Key: key, Record: a.records.get(key), Failed: a.records.failures(key), Driver: a.drivers.get(key.Driver),
		Node: mounting.Node{Name: a.Node}, InUse: a.inUse.isWanted(key),
	}
	var err error
	if s.Uses, err = a.uses(ctx, key); err != nil {
		return s, err
	}
	s.Occupied = a.records.occupied(key, s.Uses)
	if s.Holders, err = a.holders(ctx, s.Record); err != nil {
		return s, err
	}
	s.Info, err = kube.Get(ctx, a.Cached, types.NamespacedName{Name: key.Driver}, &storagev1.CSIDriver{})
	if err != nil {
		return s, err
	}
	return s, a.gatherNode(ctx, &s)
}

func (a *Agent) gatherNode(ctx context.Context, s *mounting.Snapshot) error {
	node, err := kube.Get(ctx, a.Cached, types.NamespacedName{Name: a.Node}, &corev1.Node{})
	if err != nil || node == nil {
		return err
	}
	s.Node.Labels = node.Labels
	if s.Key.IsInline() {
		return nil
	}
	name := s.Key.UniqueName()
	// A list of attached volumes counts only from a version of the node that has the report (C6).
	s.Node.Reported = a.inUse.isReported(name)
	s.Node.Attached = slices.ContainsFunc(
		node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == name },
	)
	attachment := types.NamespacedName{Name: names.AttachmentName(s.Key.Handle, s.Key.Driver, a.Node)}
	s.Attachment, err = kube.Get(ctx, a.Cached, attachment, &storagev1.VolumeAttachment{})
	return err
}

// uses returns what the pods of the node want of the volume.
func (a *Agent) uses(ctx context.Context, key mounting.Key) ([]mounting.Use, error) {
	pods, err := a.podsOf(ctx, key)
	if err != nil {
		return nil, err
	}
	var uses []mounting.Use
	for _, pod := range pods {
		if !mounting.WantsVolumes(pod) {
			continue
		}
		all, _ := mounting.Resolve(pod, a.objects(ctx))
		for _, use := range all {
			if use.Key == key {
				uses = append(uses, use)
			}
		}
	}
	return uses, nil
}

// holders returns the pods of the record's publications that want their volumes. They are found by
// uid: a claim or PersistentVolume that is gone does not lead to them.
func (a *Agent) holders(ctx context.Context, record mounting.Record) (map[types.UID]bool, error) {
	holders := map[types.UID]bool{}
	for _, publication := range record.Publications {
		pods, err := a.listPods(ctx, client.MatchingFields{indexUID: string(publication.Pod)})
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(pods, mounting.WantsVolumes) {
			holders[publication.Pod] = true
		}
	}
	return holders, nil
}

// objects reads claims and volumes from the cache, whose reads do not fail.
func (a *Agent) objects(ctx context.Context) mounting.Objects {
	return mounting.Objects{
		Claim: func(namespace, name string) *corev1.PersistentVolumeClaim {
			key := types.NamespacedName{Namespace: namespace, Name: name}
			claim, err := kube.Get(ctx, a.Cached, key, &corev1.PersistentVolumeClaim{})
			if err != nil {
				return nil
			}
			return claim
		},
		Volume: func(name string) *corev1.PersistentVolume {
			pv, err := kube.Get(ctx, a.Cached, types.NamespacedName{Name: name}, &corev1.PersistentVolume{})
			if err != nil {
				return nil
			}
			return pv
		},
	}
}

// podsOf returns the pods of the node that may use the volume.
func (a *Agent) podsOf(ctx context.Context, key mounting.Key) ([]*corev1.Pod, error) {
	if key.IsInline() {
		return a.listPods(ctx, client.MatchingFields{indexUID: string(key.Pod)})
	}
	var volumes corev1.PersistentVolumeList
	byHandle := client.MatchingFields{indexHandle: key.String()}
	if err := a.Cached.List(ctx, &volumes, byHandle, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for i := range volumes.Items {
		ref := volumes.Items[i].Spec.ClaimRef
		if ref == nil {
			continue
		}
		more, err := a.podsOfClaim(ctx, ref.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		for _, pod := range more { // a pod may use two volumes with one handle
			if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.UID == pod.UID }) {
				pods = append(pods, pod)
			}
		}
	}
	return pods, nil
}

func (a *Agent) podsOfClaim(ctx context.Context, namespace, name string) ([]*corev1.Pod, error) {
	return a.listPods(ctx, client.InNamespace(namespace), client.MatchingFields{indexClaim: name})
}

// listPods returns the pods of this node. The objects are those of the cache and must not be
// changed.
func (a *Agent) listPods(ctx context.Context, options ...client.ListOption) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := a.Cached.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Spec.NodeName == a.Node {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}
