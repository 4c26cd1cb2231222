package reclaim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Reader reads snapshots. Without the functions it reads as a fresh process does.
type Reader struct {
	kube.Readers
	Driver    reclaim.Driver
	Protector bool // see [reclaim.Snapshot]
	Attacher  bool // see [reclaim.Snapshot]
	// Known returns what the process knows of a volume beyond the API objects; nil for nothing.
	Known func(*corev1.PersistentVolume) reclaim.Known
	// CallsEnd returns when the CreateVolume calls of previous leaders for a PersistentVolume must
	// have ended, as the journal says; nil for no journal.
	CallsEnd func(ctx context.Context, pv *corev1.PersistentVolume) (time.Time, error)
	// List returns the names of all volumes with a handle, by a live list for the named volume; nil to
	// list them for each call.
	List func(ctx context.Context, handle, volume string) ([]string, error)
}

// Gather returns the PersistentVolume as the cache has it.
func (r Reader) Gather(ctx context.Context, name string) (reclaim.Snapshot, error) {
	s := reclaim.Snapshot{Name: name, Driver: r.Driver, Protector: r.Protector, Attacher: r.Attacher}
	pv, err := kube.Get(ctx, r.Cached, client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
	if err != nil {
		return s, err
	}
	return r.with(s, pv)
}

// with returns the snapshot with the volume.
func (r Reader) with(s reclaim.Snapshot, pv *corev1.PersistentVolume) (reclaim.Snapshot, error) {
	translated, err := objects.ToCSI(pv) // D-11
	if err != nil {
		return s, err
	}
	s.Volume, s.InTree = translated, objects.IsInTree(pv)
	if pv != nil && r.Known != nil {
		s.Known = r.Known(pv)
	}
	return s, nil
}

// Read returns the snapshot with what a decision asked for.
func (r Reader) Read(ctx context.Context, s reclaim.Snapshot, refs []verdict.Ref) (reclaim.Snapshot, error) {
	for _, ref := range refs {
		var err error
		if ref.What == reclaim.ReadVolume {
			s, err = r.volume(ctx, s)
		} else {
			var answer reclaim.Answer
			answer, err = r.answer(ctx, s, ref)
			s = s.With(ref, answer)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// volume returns the snapshot with the live volume. Another object of the name is enqueued by its own
// event.
func (r Reader) volume(ctx context.Context, s reclaim.Snapshot) (reclaim.Snapshot, error) {
	now, err := kube.Get(ctx, r.Live, client.ObjectKey{Name: s.Name}, &corev1.PersistentVolume{})
	if err != nil {
		return s, err
	}
	if now != nil && now.UID != s.Volume.UID {
		now = nil
	}
	s.IsLive = true
	return r.with(s, now)
}

func (r Reader) answer(ctx context.Context, s reclaim.Snapshot, ref verdict.Ref) (a reclaim.Answer, err error) {
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	switch ref.What {
	case reclaim.ReadClaim: // the cache last: it is asked whether the claim's deletion will be shown
		if a.Claim, err = kube.Get(ctx, r.Live, key, &corev1.PersistentVolumeClaim{}); err != nil {
			return a, err
		}
		a.CachedClaim, err = kube.Get(ctx, r.Cached, key, &corev1.PersistentVolumeClaim{})
	case reclaim.ReadClass:
		a.Class, err = kube.Get(ctx, r.Cached, key, &storagev1.StorageClass{})
	case reclaim.ReadSameHandle:
		a.Volumes, a.Names, err = r.withHandle(ctx, ref.Name, nil, s.Name)
	case reclaim.ReadAllVolumes:
		var listed []string
		if listed, err = r.list(ctx, ref.Name, s.Name); err == nil {
			a.Volumes, a.Names, err = r.withHandle(ctx, ref.Name, listed, s.Name)
		}
	case reclaim.ReadAttachments:
		a.Attached, err = r.attached(ctx, ref.Name)
	case reclaim.ReadCallsEnd:
		if pv := volumeNamed(s, ref.Name); pv != nil && r.CallsEnd != nil {
			a.CallsEnd, err = r.CallsEnd(ctx, pv)
		}
	default:
		err = fmt.Errorf("no reclaimer reads %s; this is a bug of Purser, please report it", ref)
	}
	return a, err
}

func volumeNamed(s reclaim.Snapshot, name string) *corev1.PersistentVolume {
	all := append([]*corev1.PersistentVolume{s.Volume}, s.Others()...)
	if i := slices.IndexFunc(all, func(pv *corev1.PersistentVolume) bool { return pv.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// attached returns the nodes that the VolumeAttachments of a PersistentVolume name.
func (r Reader) attached(ctx context.Context, volume string) (nodes []string, err error) {
	var attachments storagev1.VolumeAttachmentList
	if err := r.Cached.List(ctx, &attachments, client.MatchingFields{IndexAttachedVolume: volume}); err != nil {
		return nil, fmt.Errorf("read the VolumeAttachments of %q: %w", volume, err)
	}
	for i := range attachments.Items {
		nodes = append(nodes, attachments.Items[i].Spec.NodeName)
	}
	return nodes, nil
}

// withHandle reads live the volumes with the handle that are listed or cached, without the named one.
// The cache is read last, for what this process wrote during a list. names has all that were read.
func (r Reader) withHandle(
	ctx context.Context, handle string, listed []string, but string,
) (all []*corev1.PersistentVolume, names []string, err error) {
	cached, err := r.cachedWithHandle(ctx, handle)
	if err != nil {
		return nil, nil, err
	}
	for _, pv := range cached {
		listed = append(listed, pv.Name)
	}
	names = slices.Compact(slices.Sorted(slices.Values(listed)))
	names = slices.DeleteFunc(names, func(name string) bool { return name == but })
	for _, name := range names {
		now, err := kube.Get(ctx, r.allVolumes(), client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
		if err != nil {
			return nil, nil, err
		}
		if now != nil && reclaim.Handle(now, r.Driver.Name) == handle {
			all = append(all, now)
		}
	}
	return all, names, nil
}

// cachedWithHandle returns the driver's volumes with a handle from the cache. Nearly always there is
// one. The caller must not change them.
func (r Reader) cachedWithHandle(ctx context.Context, handle string) (all []*corev1.PersistentVolume, err error) {
	if handle == "" {
		return nil, nil
	}
	var near corev1.PersistentVolumeList
	if err := r.Cached.List(ctx, &near, client.MatchingFields{IndexVolumeHandle: kube.HandleBucket(handle)},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the PersistentVolumes with handle %q: %w", handle, err)
	}
	for i := range near.Items {
		if reclaim.Handle(&near.Items[i], r.Driver.Name) == handle {
			all = append(all, &near.Items[i])
		}
	}
	return all, nil
}

func (r Reader) list(ctx context.Context, handle, volume string) ([]string, error) {
	if r.List != nil {
		return r.List(ctx, handle, volume)
	}
	names := map[string][]string{handle: nil}
	err := r.listVolumes(ctx, names)
	return names[handle], err
}

// listVolumes adds the names of the driver's volumes to the requested handles. All pages have one
// resourceVersion.
func (r Reader) listVolumes(ctx context.Context, into map[string][]string) error {
	newPage := func() *corev1.PersistentVolumeList { return &corev1.PersistentVolumeList{} }
	for page, err := range kube.Pages(ctx, r.allVolumes(), newPage) {
		if err != nil {
			return fmt.Errorf(
				"list the PersistentVolumes, to know which have the handle of one that is to be deleted: %w", err,
			)
		}
		for i := range page.Items {
			handle := reclaim.Handle(&page.Items[i], r.Driver.Name)
			if names, asked := into[handle]; asked {
				into[handle] = append(names, page.Items[i].Name)
			}
		}
	}
	return nil
}

// allVolumes returns the reader for PersistentVolumes that may have the same handle.
func (r Reader) allVolumes() client.Reader {
	if r.AllVolumes != nil {
		return r.AllVolumes
	}
	return r.Live
}
