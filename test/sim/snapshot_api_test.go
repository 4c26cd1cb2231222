package sim

import (
	"context"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/snapshot"
)

// snapshotAPI is the API client of snapshot-controller and csi-snapshotter: it serves the indexes
// of the cache, and injects the fault.
type snapshotAPI struct {
	client.Client
	w *snapshotWorld
}

// List implements client.Reader.
func (f snapshotAPI) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if f.hides(list, options) {
		return nil
	}
	if err := f.Client.List(ctx, list, client.InNamespace(options.Namespace)); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	items = slices.DeleteFunc(items, func(o runtime.Object) bool { return !matches(o.(client.Object), options) })
	return meta.SetList(list, items)
}

// hides reports whether the mutant does not find contents by their handle.
func (f snapshotAPI) hides(list client.ObjectList, options *client.ListOptions) bool {
	_, contents := list.(*snapshotv1.VolumeSnapshotContentList)
	return f.w.mutant.blind && contents &&
		(options.FieldSelector == nil || options.FieldSelector.Requirements()[0].Field == snapshot.ContentIndexes()[0].Field)
}

// matches reports whether an object has the labels and the index values of a list.
func matches(o client.Object, options *client.ListOptions) bool {
	if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	if options.FieldSelector == nil || options.FieldSelector.Empty() {
		return true
	}
	wanted := options.FieldSelector.Requirements()[0]
	for _, index := range slices.Concat(snapshot.Indexes(), snapshot.GroupIndexes(), snapshot.ContentIndexes(),
		snapshot.SourceIndexes()) {
		if index.Field == wanted.Field {
			return slices.Contains(index.Values(o), wanted.Value)
		}
	}
	return false
}

// change reports whether the mutant lets a write happen.
func (f snapshotAPI) happens(o client.Object, patch client.Patch) bool {
	if f.w.mutant.write == nil {
		return true
	}
	text := ""
	if patch != nil {
		data, err := patch.Data(o)
		if err != nil {
			panic(err)
		}
		text = string(data)
	}
	return f.w.mutant.write(o, text)
}

// Create implements client.Writer.
func (f snapshotAPI) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if f.w.mutant.strip != nil {
		f.w.mutant.strip(o)
	}
	return f.w.step(func() error { return f.Client.Create(ctx, o, opts...) })
}

// Update implements client.Writer.
func (f snapshotAPI) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return f.w.step(func() error { return f.Client.Update(ctx, o, opts...) })
}

// Patch implements client.Writer.
func (f snapshotAPI) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if !f.happens(o, p) {
		return nil
	}
	return f.w.step(func() error { return f.Client.Patch(ctx, o, p, opts...) })
}

// Delete implements client.Writer.
func (f snapshotAPI) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return f.w.step(func() error { return f.Client.Delete(ctx, o, opts...) })
}

// Status implements client.StatusClient.
func (f snapshotAPI) Status() client.SubResourceWriter {
	return snapshotStatusAPI{f.Client.Status(), f.w}
}

type snapshotStatusAPI struct {
	client.SubResourceWriter
	w *snapshotWorld
}

// Patch implements client.SubResourceWriter.
func (f snapshotStatusAPI) Patch(
	ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
) error {
	return f.w.step(func() error { return f.SubResourceWriter.Patch(ctx, o, p, opts...) })
}
