package snapshot

import (
	"context"
	"fmt"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reclaim"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// handleLists reads the contents of a driver by the handle of their snapshot. One live list is for all
// contents that wait for it.
type handleLists struct {
	*reclaim.SameHandleLists
	cachedReader, liveReader client.Reader
	driver                   string
	together                 *handoff.Snapshots
}

func (h *handleLists) cached(
	ctx context.Context, content *snapshotv1.VolumeSnapshotContent,
) (*rules.Sharing, error) {
	others, err := cachedSharing(ctx, h.cachedReader, content)
	if err != nil {
		return nil, err
	}
	for i, one := range others.Contents {
		others.Contents[i] = marked(h.together, one)
	}
	return others, nil
}

// live returns the other contents of the driver with a handle, each of which it reads live too.
func (h *handleLists) live(
	ctx context.Context, content *snapshotv1.VolumeSnapshotContent, handle string, again bool,
) (*rules.Sharing, error) {
	listed, err := h.Of(ctx, handle, again)
	if err != nil {
		return nil, err
	}
	others := &rules.Sharing{}
	for _, name := range listed {
		if name == content.Name {
			continue
		}
		one, err := get[*snapshotv1.VolumeSnapshotContent](ctx, h.liveReader, types.NamespacedName{Name: name})
		if err != nil {
			return nil, err
		}
		if one != nil && rules.Handle(one, h.driver) == handle {
			others.Contents = append(others.Contents, marked(h.together, one))
		}
	}
	return others, nil
}

// list adds the names of the driver's contents to the requested handles.
func (h *handleLists) list(ctx context.Context, into map[string][]string) error {
	return eachContent(ctx, h.liveReader, func(content *snapshotv1.VolumeSnapshotContent) {
		handle := rules.Handle(content, h.driver)
		if names, asked := into[handle]; asked {
			into[handle] = append(names, content.Name)
		}
	})
}

// eachContent lists the contents live, page by page.
func eachContent(ctx context.Context, live client.Reader, visit func(*snapshotv1.VolumeSnapshotContent)) error {
	newPage := func() *snapshotv1.VolumeSnapshotContentList { return &snapshotv1.VolumeSnapshotContentList{} }
	for page, err := range kube.Pages(ctx, live, newPage) {
		if err != nil {
			return fmt.Errorf("list the VolumeSnapshotContents that may have the same handle: %w", err)
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
	}
	return nil
}

// groupLists reads the contents that name a group or a snapshot of it. Groups are rarely deleted, so
// each deletion makes its own lists.
type groupLists struct{ client.Reader }

func (groupLists) cached(context.Context, *groupv1.VolumeGroupSnapshotContent) (*rules.Sharing, error) {
	return nil, nil //nolint:nilnil // they are read live
}

func (g groupLists) live(
	ctx context.Context, content *groupv1.VolumeGroupSnapshotContent, _ string, _ bool,
) (*rules.Sharing, error) {
	others := &rules.Sharing{}
	newPage := func() *groupv1.VolumeGroupSnapshotContentList { return &groupv1.VolumeGroupSnapshotContentList{} }
	for page, err := range kube.Pages(ctx, g.Reader, newPage) {
		if err != nil {
			return nil, fmt.Errorf("list the VolumeGroupSnapshotContents that may have the same handle: %w", err)
		}
		for i := range page.Items {
			if rules.IsSharing(content, &page.Items[i]) {
				others.Groups = append(others.Groups, &page.Items[i])
			}
		}
	}
	err := eachContent(ctx, g.Reader, func(one *snapshotv1.VolumeSnapshotContent) {
		if rules.IsSharingSnapshot(content, one) {
			others.Contents = append(others.Contents, one)
		}
	})
	return others, err
}
