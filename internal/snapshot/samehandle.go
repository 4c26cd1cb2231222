package snapshot

import (
	"context"
	"fmt"
	"sync"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// indexSnapshotHandle finds contents by the handle of their snapshot.
const indexSnapshotHandle = "snapshotHandle"

// ContentIndexes are those that the sidecar reads by.
func ContentIndexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(indexSnapshotHandle, func(c *snapshotv1.VolumeSnapshotContent) []string {
			if handle := rules.Handle(c, c.Spec.Driver); handle != "" {
				return []string{handle}
			}
			return nil
		}),
	}
}

// removals are the contents that the watch showed to become removable. The cache then has all
// contents that existed at that moment, with their state at it, so that the first attempt needs no
// live list: of two contents with a handle, the one that became removable later sees that the other
// one is. It is safe for concurrent use.
type removals struct {
	mu   sync.Mutex
	seen map[types.UID]bool
}

// note notes an event of the watch.
func (r *removals) note(was, is *snapshotv1.VolumeSnapshotContent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case is == nil:
		delete(r.seen, was.UID)
	case was == nil || rules.IsRemovable(was) || !rules.IsRemovable(is):
	case r.seen == nil:
		r.seen = map[types.UID]bool{is.UID: true}
	default:
		r.seen[is.UID] = true
	}
}

func (r *removals) have(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[uid]
}

// cachedSameHandle returns the other cached contents of the driver with a handle.
func (c *Sidecar) cachedSameHandle(
	ctx context.Context, content *snapshotv1.VolumeSnapshotContent, handle string,
) ([]*snapshotv1.VolumeSnapshotContent, error) {
	var all snapshotv1.VolumeSnapshotContentList
	if err := c.Cached.List(ctx, &all, client.MatchingFields{indexSnapshotHandle: handle}); err != nil {
		return nil, fmt.Errorf("read the contents with the snapshot %q: %w", handle, err)
	}
	var found []*snapshotv1.VolumeSnapshotContent
	for i := range all.Items {
		if one := &all.Items[i]; one.UID != content.UID && one.Spec.Driver == c.Driver {
			found = append(found, one)
		}
	}
	return found, nil
}

// listSameHandle returns the other contents of the driver with a handle, which it lists and reads
// live. One list is for all contents that wait for it.
func (c *Sidecar) listSameHandle(
	ctx context.Context, content *snapshotv1.VolumeSnapshotContent, handle string,
) ([]*snapshotv1.VolumeSnapshotContent, error) {
	listed, err := c.sameHandle.Of(ctx, handle, c.retries.Get(content.Name).Failed > 0)
	if err != nil {
		return nil, err
	}
	var found []*snapshotv1.VolumeSnapshotContent
	for _, name := range listed {
		if name == content.Name {
			continue
		}
		one, err := kube.Get(ctx, c.Live, types.NamespacedName{Name: name}, &snapshotv1.VolumeSnapshotContent{})
		if err != nil {
			return nil, err
		}
		if one != nil && rules.Handle(one, c.Driver) == handle {
			found = append(found, one)
		}
	}
	return found, nil
}

// listContents adds the names of the driver's contents to the requested handles.
func (c *Sidecar) listContents(ctx context.Context, into map[string][]string) error {
	for content, err := range allContents(ctx, c.Live) {
		if err != nil {
			return err
		}
		handle := rules.Handle(content, c.Driver)
		if names, asked := into[handle]; asked {
			into[handle] = append(names, content.Name)
		}
	}
	return nil
}

// allContents lists the contents live, page by page.
func allContents(ctx context.Context, live client.Reader) func(func(*snapshotv1.VolumeSnapshotContent, error) bool) {
	return func(yield func(*snapshotv1.VolumeSnapshotContent, error) bool) {
		newPage := func() *snapshotv1.VolumeSnapshotContentList { return &snapshotv1.VolumeSnapshotContentList{} }
		for page, err := range kube.Pages(ctx, live, newPage) {
			if err != nil {
				yield(nil, fmt.Errorf("list the VolumeSnapshotContents that may have the same handle: %w", err))
				return
			}
			for i := range page.Items {
				if !yield(&page.Items[i], nil) {
					return
				}
			}
		}
	}
}

// listSharing returns the other contents that name the group or a snapshot of it. Groups are rarely
// deleted, so each deletion makes its own lists.
func (c *GroupSidecar) listSharing(
	ctx context.Context, content *groupv1.VolumeGroupSnapshotContent,
) (others rules.Sharing, err error) {
	newPage := func() *groupv1.VolumeGroupSnapshotContentList { return &groupv1.VolumeGroupSnapshotContentList{} }
	for page, err := range kube.Pages(ctx, c.Live, newPage) {
		if err != nil {
			return others, fmt.Errorf("list the VolumeGroupSnapshotContents that may have the same handle: %w", err)
		}
		for i := range page.Items {
			if rules.IsSharing(content, &page.Items[i]) {
				others.Groups = append(others.Groups, &page.Items[i])
			}
		}
	}
	for one, err := range allContents(ctx, c.Live) {
		if err != nil {
			return others, err
		}
		if rules.IsSharingSnapshot(content, one) {
			others.Contents = append(others.Contents, one)
		}
	}
	return others, nil
}
