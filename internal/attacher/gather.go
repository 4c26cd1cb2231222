package attacher

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/kube"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
)

// IndexPublishedHandle finds the VolumeAttachments of an attacher's driver by the handle that they
// remember.
const IndexPublishedHandle = "publishedHandle"

// Indexes are the indexes of [Gather].
func Indexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(kube.IndexAttachmentVolume, kube.AttachedVolume),
		kube.IndexBy(kube.IndexAttachmentNode, kube.AttachedNode),
		kube.IndexBy(IndexPublishedHandle, RememberedHandle),
	}
}

// RememberedHandle returns the handle that a VolumeAttachment remembers, if it does.
func RememberedHandle(va *storagev1.VolumeAttachment) []string {
	if handle := va.Annotations[names.AnnVolumeHandle]; handle != "" {
		return []string{handle}
	}
	return nil
}

// Memory is the state of this process about VolumeAttachments, beyond the API objects.
type Memory struct {
	Driver  publishing.Driver
	Volumes *kube.OwnWrites[*corev1.PersistentVolume] // nil for none
	// Attachment reads one as new as this process's last write to it; nil for as the reader has it.
	Attachment func(ctx context.Context, name string) (*storagev1.VolumeAttachment, error)
}

func (m Memory) read(
	ctx context.Context, from client.Reader, name string,
) (*storagev1.VolumeAttachment, error) {
	if m.Attachment != nil {
		return m.Attachment(ctx, name)
	}
	return kube.Get(ctx, from, types.NamespacedName{Name: name}, &storagev1.VolumeAttachment{})
}

// Gather gathers the inputs of the decision about a VolumeAttachment for its driver's attacher.
func Gather(
	ctx context.Context, from client.Reader, va *storagev1.VolumeAttachment, m Memory,
) (s publishing.Snapshot, err error) {
	s.Driver, s.Attachment = m.Driver, va
	if pv := va.Spec.Source.PersistentVolumeName; pv != nil {
		if s.Volume, err = kube.ReadOwn(ctx, from, m.Volumes, types.NamespacedName{Name: *pv},
			&corev1.PersistentVolume{}); err != nil {
			return s, err
		}
		s.Migrated = objects.IsInTree(s.Volume)
		volume, err := objects.ToCSI(s.Volume)
		if err == nil {
			s.Volume = volume
		} else {
			s.Untranslated = err.Error()
		}
	} else if inline := va.Spec.Source.InlineVolumeSpec; inline != nil && inline.CSI != nil {
		s.Migrated = true
		s.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: inline.CSI.VolumeHandle}, Spec: *inline}
	}
	s.Node, err = kube.Get(ctx, from, types.NamespacedName{Name: va.Spec.NodeName}, &storagev1.CSINode{})
	if err != nil {
		return s, err
	}
	s.Others, err = OtherAttachments(ctx, from, s, m)
	return s, err
}

// OtherAttachments reads the other VolumeAttachments of an exclusive volume, by its name and by its
// handle, each as new as this process's last write to it.
func OtherAttachments(
	ctx context.Context, from client.Reader, s publishing.Snapshot, m Memory,
) (all []*storagev1.VolumeAttachment, err error) {
	if s.Volume == nil || !objects.IsExclusive(s.Volume) || s.Attachment.Status.Attached {
		return nil, nil
	}
	which := []client.MatchingFields{{kube.IndexAttachmentVolume: s.Volume.Name}}
	if s.Volume.Spec.CSI != nil {
		which = append(which, client.MatchingFields{IndexPublishedHandle: s.Volume.Spec.CSI.VolumeHandle})
	}
	seen := map[string]bool{s.Attachment.Name: true}
	for _, matching := range which {
		var list storagev1.VolumeAttachmentList
		if err := from.List(ctx, &list, matching); err != nil {
			return nil, err
		}
		for i := range list.Items {
			name := list.Items[i].Name
			if seen[name] || list.Items[i].Spec.Attacher != m.Driver.Name {
				continue
			}
			seen[name] = true
			va, err := m.read(ctx, from, name)
			if err != nil {
				return nil, err
			}
			if va != nil {
				all = append(all, va)
			}
		}
	}
	return all, nil
}
