package sim

import (
	"context"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	provisioning "github.com/purser-csi/purser/internal/provision"
)

// attachMutants must all be caught.
var attachMutants = []mutant{
	{name: "deletes VolumeAttachments whatever has become of them", of: attachDetach, by: "crash, and a write arrives later", client: overDeletes(func(o *client.DeleteOptions) {
		o.Preconditions.ResourceVersion = nil
	})},
	{name: "does not confirm what another process created", of: attachDetach, by: "crash, and a write arrives later", client: writes{skip: textHas(names.AnnAttachConfirmed)}.client},
	{name: "does not see what a node uses", of: attachDetach, client: edits(func(n *corev1.Node) { n.Status.VolumesInUse = nil }), cached: cachedEdits(func(n *corev1.Node) { n.Status.VolumesInUse = nil })},
	{name: "asks the cache alone what a node uses", of: attachDetach, by: "watch", client: edits(func(n *corev1.Node) { n.Status.VolumesInUse = nil })},
	{name: "never lists a volume", of: attachDetach, client: writes{skip: textHas(`"op":"add"`)}.client},
	{name: "never unlists a volume", of: attachDetach, client: writes{skip: textHas(`"op":"remove"`)}.client},
	{name: "writes lists of nodes untested", of: attachDetach, by: "two leaders, and a write of the previous one arrives later", client: writes{change: untested}.client},
	{name: "does not see where else a volume is attached", of: attachDetach, cached: func(r client.Reader) client.Reader { return withoutAttachments{r} }},
	{name: "takes a shared volume for one of one node", of: attachDetach, cached: cachedEdits(func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	})},
	{name: "takes an exclusive volume for a shared one", of: attachDetach, cached: cachedEdits(func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})},
	{name: "detaches by force at once", of: attachDetach, forceAfter: time.Millisecond},
	{name: "never detaches by force", of: attachDetach, forceAfter: time.Hour},
	{name: "gets no event of deleted pods", of: attachDetach, handlers: deafToDeletion[*corev1.Pod]},
	{name: "gets no event of nodes", of: attachDetach, handlers: deaf[*corev1.Node]},
	{name: "gets no event of VolumeAttachments", of: attachDetach, handlers: deaf[*storagev1.VolumeAttachment]},
	{name: "forgets what it wrote", of: attachDetach, by: "watch", client: func(api client.Client, _ client.Reader) client.Client { return timeless{api} }, costs: true},
	{name: "forgets a VolumeAttachment that it created", of: attachDetach, by: "watch", writer: func(recording, api client.Client, _ *kube.Overlay) client.Client {
		return forgetsCreated{recording, api}
	}, costs: true},
	{name: "shows for good a VolumeAttachment that it created", of: attachDetach, writer: func(recording, _ client.Client, own *kube.Overlay) client.Client {
		return clings[*storagev1.VolumeAttachment]{recording, own}
	}},
	{name: "shows for good a VolumeAttachment that it prepared", of: csiAttacher, writer: func(recording, _ client.Client, own *kube.Overlay) client.Client {
		return clings[*storagev1.VolumeAttachment]{recording, own}
	}},
	{name: "publishes without a finalizer on the VolumeAttachment", of: csiAttacher, client: writes{skip: textHas(names.AnnVolumeHandle)}.client},
	{name: "goes on when the VolumeAttachment is gone", of: csiAttacher, by: "slow write", client: writes{after: func(error) error { return nil }}.client},
	{name: "lets a VolumeAttachment go before it is detached", of: csiAttacher, driver: func(d csi.ControllerClient, _ provisioning.Journal) csi.ControllerClient {
		return unpublishesBlindly{d}
	}},
	{name: "takes a failed publish for a success", of: csiAttacher, driver: func(d csi.ControllerClient, _ provisioning.Journal) csi.ControllerClient {
		return publishesBlindly{d}
	}},
	{name: "never says that a volume is attached", of: csiAttacher, client: writes{skip: textHas(`"attached":true`)}.client},
	{name: "never lets a VolumeAttachment go", of: csiAttacher, client: writes{skip: textHas("deleteFromPrimitiveList")}.client},
	{name: "gets no event of deleted VolumeAttachments", of: csiAttacher, handlers: deaf[*storagev1.VolumeAttachment]},
	{name: "lets no VolumeAttachment go whose CSIDriver is gone", of: csiAttacher, by: "everything deleted while something is missing", client: needs(func(va *storagev1.VolumeAttachment) string { return va.Spec.Attacher }, &storagev1.CSIDriver{})},
	{name: "forgets what the driver was asked for", of: csiAttacher, by: "watch", client: func(api client.Client, _ client.Reader) client.Client { return timeless{api} }, costs: true},
}

// forgetsCreated has the overlay see no create.
type forgetsCreated struct {
	client.Client
	api client.Client
}

// Create implements client.Writer.
func (f forgetsCreated) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return f.api.Create(ctx, o, opts...)
}

// clings has the overlay take creates, updates and patches of a kind for newer than all that the watch shows.
type clings[T client.Object] struct {
	client.Client
	own *kube.Overlay
}

// Create implements client.Writer.
func (c clings[T]) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.laid(o, c.Client.Create(ctx, o, opts...))
}

// Patch implements client.Writer.
func (c clings[T]) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.laid(o, c.Client.Patch(ctx, o, p, opts...))
}

// Update implements client.Writer.
func (c clings[T]) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return c.laid(o, c.Client.Update(ctx, o, opts...))
}

func (c clings[T]) laid(o client.Object, err error) error {
	if _, ok := o.(T); ok && err == nil {
		held := o.DeepCopyObject().(client.Object)
		held.SetResourceVersion("1" + strings.Repeat("0", 12))
		c.own.Wrote(held)
	}
	return err
}

// textHas is a write whose patch has the text.
func textHas(text string) func(written) bool {
	return func(w written) bool { return strings.Contains(w.text, text) }
}

// overDeletes changes the options of deletions.
func overDeletes(change func(*client.DeleteOptions)) func(client.Client, client.Reader) client.Client {
	return func(api client.Client, _ client.Reader) client.Client { return changedDeletes{api, change} }
}

type changedDeletes struct {
	client.Client
	change func(*client.DeleteOptions)
}

// Delete implements client.Writer.
func (c changedDeletes) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	c.change(options)
	return c.Client.Delete(ctx, o, options)
}

// edits has objects of a kind read and answered otherwise by the API server.
func edits[T client.Object](change func(T)) func(client.Client, client.Reader) client.Client {
	return func(api client.Client, _ client.Reader) client.Client { return editedAnswers[T]{api, change} }
}

type editedAnswers[T client.Object] struct {
	client.Client
	change func(T)
}

// Status implements client.StatusClient.
func (e editedAnswers[T]) Status() client.SubResourceWriter {
	return editedStatus[T]{e.Client.Status(), e.change}
}

type editedStatus[T client.Object] struct {
	client.SubResourceWriter
	change func(T)
}

// Patch implements client.SubResourceWriter.
func (e editedStatus[T]) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	err := e.SubResourceWriter.Patch(ctx, o, p, opts...)
	if o, ok := o.(T); ok && err == nil {
		e.change(o)
	}
	return err
}

// cachedEdits has objects of a kind look otherwise in the cache.
func cachedEdits[T client.Object](change func(T)) func(client.Reader) client.Reader {
	return func(r client.Reader) client.Reader { return editedCache[T]{r, change} }
}

type editedCache[T client.Object] struct {
	client.Reader
	change func(T)
}

// Get implements client.Reader.
func (e editedCache[T]) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := e.Reader.Get(ctx, key, o, opts...)
	if o, ok := o.(T); ok && err == nil {
		e.change(o)
	}
	return err
}

// List implements client.Reader.
func (e editedCache[T]) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := e.Reader.List(ctx, list, opts...)
	if volumes, ok := list.(*corev1.PersistentVolumeList); ok {
		for i := range volumes.Items {
			if o, ok := client.Object(&volumes.Items[i]).(T); ok {
				e.change(o)
			}
		}
	}
	return err
}

// withoutAttachments finds no VolumeAttachment by its volume.
type withoutAttachments struct{ client.Reader }

// List implements client.Reader.
func (w withoutAttachments) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*storagev1.VolumeAttachmentList); ok {
		return nil
	}
	return w.Reader.List(ctx, list, opts...)
}

type unpublishesBlindly struct{ csi.ControllerClient }

// ControllerUnpublishVolume implements csi.ControllerClient.
func (d unpublishesBlindly) ControllerUnpublishVolume(
	ctx context.Context, in *csi.ControllerUnpublishVolumeRequest, opts ...grpc.CallOption,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	_, _ = d.ControllerClient.ControllerUnpublishVolume(ctx, in, opts...)
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

type publishesBlindly struct{ csi.ControllerClient }

// ControllerPublishVolume implements csi.ControllerClient.
func (d publishesBlindly) ControllerPublishVolume(
	ctx context.Context, in *csi.ControllerPublishVolumeRequest, opts ...grpc.CallOption,
) (*csi.ControllerPublishVolumeResponse, error) {
	_, _ = d.ControllerClient.ControllerPublishVolume(ctx, in, opts...)
	return &csi.ControllerPublishVolumeResponse{}, nil
}
