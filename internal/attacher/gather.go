package attacher

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// IndexPublishedHandle finds the VolumeAttachments of an attacher's driver by the handle that they
// remember.
const IndexPublishedHandle = "publishedHandle"

// Indexes are the indexes of [Read].
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

// Gather reads the inputs of the decision about a VolumeAttachment for its driver's attacher.
func Gather(
	ctx context.Context, from client.Reader, va *storagev1.VolumeAttachment, driver publishing.Driver,
) (s publishing.Snapshot, err error) {
	s.Driver, s.Attachment = driver, va
	if err := readVolume(ctx, from, &s); err != nil {
		return s, err
	}
	s.Node, err = kube.Get(ctx, from, types.NamespacedName{Name: va.Spec.NodeName}, &storagev1.CSINode{})
	return s, err
}

func readVolume(ctx context.Context, from client.Reader, s *publishing.Snapshot) (err error) {
	source := s.Attachment.Spec.Source
	if pv := source.PersistentVolumeName; pv != nil {
		s.Volume, err = kube.Get(ctx, from, types.NamespacedName{Name: *pv}, &corev1.PersistentVolume{})
		if err != nil {
			return err
		}
		s.Migrated, s.Untranslated = objects.IsInTree(s.Volume), ""
		volume, err := objects.ToCSI(s.Volume)
		if err == nil {
			s.Volume = volume
		} else {
			s.Untranslated = err.Error()
		}
	} else if inline := source.InlineVolumeSpec; inline != nil && inline.CSI != nil {
		s.Migrated = true
		s.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: inline.CSI.VolumeHandle}, Spec: *inline}
	}
	return nil
}

// Read reads what a decision asks for into the snapshot.
func Read(
	ctx context.Context, from kube.Readers, s publishing.Snapshot, refs []verdict.Ref,
) (publishing.Snapshot, error) {
	now := s
	for _, ref := range refs {
		var err error
		name := types.NamespacedName{Name: ref.Name}
		switch ref.What {
		case publishing.RefAttachment:
			now.Attachment, err = kube.Get(ctx, from.Cached, name, &storagev1.VolumeAttachment{})
		case publishing.RefLiveAttachment:
			now.IsLive = true
			now.Attachment, err = kube.Get(ctx, from.Live, name, &storagev1.VolumeAttachment{})
		case publishing.RefVolume:
			if now.Attachment != nil {
				err = readVolume(ctx, from.Cached, &now)
			}
		case publishing.RefOthers:
			now.HasOthers = true
			now.Others, err = others(ctx, from.Cached, s)
		default:
			err = fmt.Errorf("the attacher cannot read %s; this is a bug of Purser, please report it", ref)
		}
		if err != nil {
			return s, err
		}
	}
	return now, nil
}

// others lists the other VolumeAttachments of a volume, by its name and by its handle.
func others(
	ctx context.Context, from client.Reader, s publishing.Snapshot,
) (all []*storagev1.VolumeAttachment, err error) {
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
			if va := &list.Items[i]; !seen[va.Name] && va.Spec.Attacher == s.Driver.Name {
				seen[va.Name] = true
				all = append(all, va)
			}
		}
	}
	return all, nil
}
