package attachdetach

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/migration"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/protection"
)

// Indexes: volumes by driver and handle, pods by claim, by volume named in place and by node,
// VolumeAttachments by volume, node and remembered handle, nodes by the volumes that their status
// names.
const (
	IndexHandle     = "attachedHandle"
	IndexClaim      = "attachedClaim"
	IndexInline     = "attachedInline"
	IndexPodNode    = "attachedPodNode"
	IndexVolume     = "attachedVolume"
	IndexNode       = "attachedNode"
	IndexRemembered = "attachedRemembered"
	IndexListed     = "attachedListed"
)

// AddIndexes registers the indexes.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, i := range Indexes() {
		if err := indexer.IndexField(ctx, i.Kind, i.Field, i.Values); err != nil {
			return fmt.Errorf("index %T by %s: %w", i.Kind, i.Field, err)
		}
	}
	return nil
}

// Index is one index of the cache.
type Index struct {
	Kind   client.Object
	Field  string
	Values client.IndexerFunc
}

// Indexes are all that the controller needs.
func Indexes() []Index {
	return []Index{
		{&corev1.PersistentVolume{}, IndexHandle, handles},
		{&corev1.Pod{}, IndexClaim, claims},
		{&corev1.Pod{}, IndexInline, inlines},
		{&corev1.Pod{}, IndexPodNode, podNodes},
		{&storagev1.VolumeAttachment{}, IndexVolume, volumes},
		{&storagev1.VolumeAttachment{}, IndexNode, attachmentNodes},
		{&storagev1.VolumeAttachment{}, IndexRemembered, remembered},
		{&corev1.Node{}, IndexListed, listed},
	}
}

func handles(o client.Object) []string {
	if key, ok := keyOfVolume(o.(*corev1.PersistentVolume)); ok {
		return []string{key.String()}
	}
	return nil
}

// keyOfVolume returns the driver and the handle of a volume, for an in-tree volume those of its
// migration (4.9).
func keyOfVolume(pv *corev1.PersistentVolume) (Key, bool) {
	pv, err := migration.ToCSI(pv)
	if err != nil || pv.Spec.CSI == nil {
		return Key{}, false
	}
	return Key{Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle}, true
}

// inlineVolumes are the volumes that a pod names in place, as those of their CSI drivers (4.9).
func inlineVolumes(pod *corev1.Pod) (all []*corev1.PersistentVolume) {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; migration.IsInline(v) {
			if pv, err := migration.Inline(v, pod.Namespace); err == nil && pv.Spec.CSI != nil {
				all = append(all, pv)
			}
		}
	}
	return all
}

// inlineKeys are the keys of the volumes that a pod names in place.
func inlineKeys(pod *corev1.Pod) (keys []Key) {
	for _, pv := range inlineVolumes(pod) {
		keys = append(keys, Key{Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle})
	}
	return keys
}

func inlines(o client.Object) (all []string) {
	for _, key := range inlineKeys(o.(*corev1.Pod)) {
		all = append(all, key.String())
	}
	return all
}

// podNodes is the node of a pod that has volumes which may be attached.
func podNodes(o client.Object) []string {
	pod := o.(*corev1.Pod)
	if pod.Spec.NodeName == "" || len(protection.ClaimNames(pod)) == 0 && len(inlineKeys(pod)) == 0 {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

func claims(o client.Object) []string { return protection.ClaimNames(o.(*corev1.Pod)) }

func volumes(o client.Object) []string {
	if volume := o.(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName; volume != nil {
		return []string{*volume}
	}
	return nil
}

func attachmentNodes(o client.Object) []string {
	return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName}
}

func remembered(o client.Object) []string {
	va := o.(*storagev1.VolumeAttachment)
	if handle := va.Annotations[names.AnnVolumeHandle]; handle != "" {
		return []string{Key{Driver: va.Spec.Attacher, Handle: handle}.String()}
	}
	if key, ok := keyOfInline(va); ok {
		return []string{key.String()}
	}
	return nil
}

// keyOfInline returns the key of a VolumeAttachment that has the volume in place.
func keyOfInline(va *storagev1.VolumeAttachment) (Key, bool) {
	source := va.Spec.Source
	spec := source.InlineVolumeSpec
	if source.PersistentVolumeName != nil || spec == nil || spec.CSI == nil || spec.CSI.Driver != va.Spec.Attacher {
		return Key{}, false
	}
	return Key{Driver: spec.CSI.Driver, Handle: spec.CSI.VolumeHandle}, true
}

func listed(o client.Object) []string {
	var all []string
	for name := range volumesOfNode(o.(*corev1.Node)) {
		all = append(all, name)
	}
	return all
}

// volumesOfNode are the keys of the volumes that a node's status names, as strings.
func volumesOfNode(node *corev1.Node) map[string]Key {
	all := map[string]Key{}
	add := func(name corev1.UniqueVolumeName) {
		if driver, handle, ok := names.ParseUniqueVolumeName(string(name)); ok {
			key := Key{Driver: driver, Handle: handle}
			all[key.String()] = key
		}
	}
	for _, v := range node.Status.VolumesAttached {
		add(v.Name)
	}
	for _, name := range node.Status.VolumesInUse {
		add(name)
	}
	return all
}
