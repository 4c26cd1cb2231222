package sim

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// bindingMutants must all be caught.
var bindingMutants = []mutant{
	{name: "leaves the attacher's finalizer that it wrote", keepsAttacher: true},
	{name: "takes a volume whatever has become of it", client: writes{change: onTake(lacking("metadata", "resourceVersion"))}.client},
	{name: "takes any volume of the name", client: writes{change: onTake(lacking("metadata", "resourceVersion"), lacking("metadata", "uid"))}.client},
	{name: "takes volumes for a name instead of a claim", client: writes{change: onTake(lacking("spec", "claimRef", "uid"))}.client},
	{name: "does not mark the volumes that it chose", client: writes{change: onTake(lacking("metadata", "annotations"))}.client},
	{name: "does not mark the claims that it chose for", client: writes{change: onName(lacking("metadata", "annotations", names.AnnBoundByController))}.client},
	{name: "binds any claim of the name", by: "slow write", client: writes{change: onName(lacking("metadata", "uid"))}.client},
	{name: "names the volume before it has taken it", client: writes{before: namesFirst}.client},
	{name: "says that the claim is bound before it has taken the volume", client: writes{before: saysFirst}.client},
	{name: "never says that a claim is bound", client: writes{skip: statusOf[*corev1.PersistentVolumeClaim]}.client},
	{name: "never says that a volume is bound", client: writes{skip: phaseIs(corev1.VolumeBound)}.client},
	{name: "never releases", client: writes{skip: phaseIs(corev1.VolumeReleased)}.client},
	{name: "never says that a volume is available", client: writes{skip: phaseIs(corev1.VolumeAvailable)}.client},
	{name: "never gives a volume back", by: "two leaders, and a write of the previous one arrives later", client: writes{skip: givesBack}.client},
	{name: "calls a volume available whatever has become of it", by: "two leaders, and the previous one sees nothing", client: writes{change: when(phaseIs(corev1.VolumeAvailable), lacking("metadata", "resourceVersion"))}.client},
	{name: "writes phases untested", by: "slow write", client: writes{change: untested}.client},
	{name: "takes a refusal for a success", client: writes{after: func(error) error { return nil }}.client},
	{name: "asks memory whether a claim is gone", by: "watch", live: fromMemory[*corev1.PersistentVolumeClaim]},
	{name: "asks memory whether a volume is gone", by: "two leaders, and a write of the previous one arrives later", live: fromMemory[*corev1.PersistentVolume]},
	{name: "asks memory which pods use a claim", by: "watch", live: func(live, cached client.Reader) client.Reader { return memoryOfPods{live, cached} }},
	{name: "does not reserve what it is about to take", moreBinders: 1, costs: true},
	{name: "forgets what it wrote", client: func(api client.Client, _ client.Reader) client.Client { return timeless{api} }, costs: true},
	{name: "takes a claim that is being deleted for gone", handlers: sees(func(c *corev1.PersistentVolumeClaim) bool { return c.DeletionTimestamp != nil })},
	{name: "takes a volume that is being deleted for gone", handlers: sees(func(v *corev1.PersistentVolume) bool { return v.DeletionTimestamp != nil })},
	{name: "ignores the events of classes", handlers: deaf[*storagev1.StorageClass]},
	{name: "gets no event of deleted claims", handlers: deafToDeletion[*corev1.PersistentVolumeClaim]},
	{name: "gets no event of deleted volumes", handlers: deafToDeletion[*corev1.PersistentVolume]},
	{name: "lets volumes go that claims have", cached: func(r client.Reader) client.Reader {
		return edited{r, release}
	}},
	{name: "lets volumes go whatever has become of them", by: "slow write", client: writes{change: when(func(w written) bool {
		return strings.Contains(w.text, "$deleteFromPrimitiveList/finalizers")
	}, lacking("metadata", "resourceVersion"))}.client},
	{name: "keeps free volumes", cached: func(r client.Reader) client.Reader {
		return edited{r, func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound }}
	}},
}

// written is a patch that a controller is about to send.
type written struct {
	object client.Object
	status bool
	patch  client.Patch
	text   string
}

// writes are what a broken writer does differently.
type writes struct {
	skip   func(written) bool
	change func(written) client.Patch // nil for as it is
	before func(context.Context, client.Client, written) error
	after  func(error) error
}

func (h writes) client(api client.Client, _ client.Reader) client.Client {
	return changedClient{api, h}
}

type changedClient struct {
	client.Client
	writes writes
}

func (c changedClient) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.writes.send(ctx, c.Client, written{object: o, patch: p}, func(p client.Patch) error { return c.Client.Patch(ctx, o, p) })
}

func (c changedClient) Status() client.SubResourceWriter { return changedStatus{c.Client.Status(), c} }

type changedStatus struct {
	client.SubResourceWriter
	api changedClient
}

func (s changedStatus) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.api.writes.send(ctx, s.api.Client, written{object: o, patch: p, status: true}, func(p client.Patch) error { return s.SubResourceWriter.Patch(ctx, o, p) })
}

func (h writes) send(ctx context.Context, api client.Client, w written, send func(client.Patch) error) error {
	data, err := w.patch.Data(w.object)
	if err != nil {
		return err
	}
	w.text = string(data)
	if h.skip != nil && h.skip(w) {
		return nil
	}
	if h.before != nil {
		if err := h.before(ctx, api, w); err != nil {
			return err
		}
	}
	if h.change != nil {
		if p := h.change(w); p != nil {
			w.patch = p
		}
	}
	err = send(w.patch)
	if h.after != nil {
		err = h.after(err)
	}
	return err
}

// takes finds the first write of a binding (W1), and names the third (W3).
func takes(w written) bool {
	return strings.Contains(w.text, `"claimRef":{"apiVersion"`)
}

func isNaming(w written) bool { return strings.Contains(w.text, `"volumeName":`) && !w.status }

func givesBack(w written) bool {
	return strings.Contains(w.text, `"claimRef":null`) || strings.Contains(w.text, `"claimRef":{"resourceVersion":null,"uid":null}`)
}

func statusOf[T client.Object](w written) bool {
	_, ok := w.object.(T)
	return ok && w.status
}

func phaseIs(phase corev1.PersistentVolumePhase) func(written) bool {
	return func(w written) bool {
		return statusOf[*corev1.PersistentVolume](w) &&
			(strings.Contains(w.text, `"path":"/status/phase","value":"`+string(phase)+`"}]`) || strings.Contains(w.text, `"path":"/status/phase","value":"`+string(phase)+`"},{"op":"add"`) ||
				strings.Contains(w.text, `"phase":"`+string(phase)+`"`))
	}
}

type edit func(map[string]any)

// lacking takes a field away.
func lacking(path ...string) edit {
	return func(o map[string]any) {
		for _, step := range path[:len(path)-1] {
			inner, ok := o[step].(map[string]any)
			if !ok {
				return
			}
			o = inner
		}
		delete(o, path[len(path)-1])
	}
}

// when edits merge patches that are meant.
func when(meant func(written) bool, edits ...edit) func(written) client.Patch {
	return func(w written) client.Patch {
		var content map[string]any
		if !meant(w) || json.Unmarshal([]byte(w.text), &content) != nil {
			return nil
		}
		for _, change := range edits {
			change(content)
		}
		data, err := json.Marshal(content)
		if err != nil {
			return nil
		}
		return client.RawPatch(w.patch.Type(), data)
	}
}

func onTake(edits ...edit) func(written) client.Patch { return when(takes, edits...) }

func onName(edits ...edit) func(written) client.Patch { return when(isNaming, edits...) }

// untested leaves the tests out of JSON patches.
func untested(w written) client.Patch {
	var steps, kept []map[string]any
	if w.patch.Type() != types.JSONPatchType || json.Unmarshal([]byte(w.text), &steps) != nil {
		return nil
	}
	for _, step := range steps {
		if step["op"] != "test" {
			kept = append(kept, step)
		}
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return client.RawPatch(types.JSONPatchType, data)
}

// taken is the claim that a volume is taken for.
func taken(w written) *corev1.PersistentVolumeClaim {
	var content struct {
		Spec struct{ ClaimRef corev1.ObjectReference }
	}
	if !takes(w) || json.Unmarshal([]byte(w.text), &content) != nil {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name, claim.UID = content.Spec.ClaimRef.Namespace, content.Spec.ClaimRef.Name, content.Spec.ClaimRef.UID
	return claim
}

func namesFirst(ctx context.Context, api client.Client, w written) error {
	claim := taken(w)
	if claim == nil {
		return nil
	}
	return api.Patch(ctx, claim, client.RawPatch(types.MergePatchType, []byte(
		`{"metadata":{"annotations":{"`+names.AnnBindCompleted+`":"yes","`+names.AnnBoundByController+`":"yes"}},"spec":{"volumeName":"`+w.object.GetName()+`"}}`)))
}

func saysFirst(ctx context.Context, api client.Client, w written) error {
	claim := taken(w)
	if claim == nil {
		return nil
	}
	return api.Status().Patch(ctx, claim, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Bound"}}`)))
}

// fromMemory has objects of a kind from the cache.
func fromMemory[T client.Object](live, cached client.Reader) client.Reader {
	return memoryOf[T]{live, cached}
}

type memoryOf[T client.Object] struct {
	client.Reader
	cached client.Reader
}

func (m memoryOf[T]) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(T); ok {
		return m.cached.Get(ctx, key, o, opts...)
	}
	return m.Reader.Get(ctx, key, o, opts...)
}

type memoryOfPods struct {
	client.Reader
	cached client.Reader
}

func (m memoryOfPods) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kept := (&client.ListOptions{}).ApplyOptions(opts)
	err := m.cached.List(ctx, list, client.InNamespace(kept.Namespace))
	list.SetResourceVersion("1")
	return err
}

// timeless has answers to writes look older than anything that a watch shows, so that
// kube.OwnWrites takes none of them in.
type timeless struct{ client.Client }

func (c timeless) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	defer o.SetResourceVersion("1")
	return c.Client.Patch(ctx, o, p, opts...)
}

func (c timeless) Status() client.SubResourceWriter { return timelessStatus{c.Client.Status()} }

type timelessStatus struct{ client.SubResourceWriter }

func (s timelessStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	defer o.SetResourceVersion("1")
	return s.SubResourceWriter.Patch(ctx, o, p, opts...)
}

// sees takes objects of a kind for gone too early.
func sees[T client.Object](gone func(T) bool) hook {
	return func(_ client.Object, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
		return toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { h.OnAdd(o, false) },
			UpdateFunc: func(was, is any) {
				if o, ok := is.(T); ok && gone(o) {
					h.OnDelete(is)
					return
				}
				h.OnUpdate(was, is)
			},
			DeleteFunc: h.OnDelete,
		}
	}
}

func deaf[T client.Object](kind client.Object, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	if _, ok := kind.(T); !ok {
		return h
	}
	return toolscache.ResourceEventHandlerFuncs{}
}

func deafToDeletion[T client.Object](kind client.Object, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	if _, ok := kind.(T); !ok {
		return h
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) { h.OnAdd(o, false) }, UpdateFunc: h.OnUpdate}
}
