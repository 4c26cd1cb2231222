package sim

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/journal"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	provisioning "github.com/purser-csi/purser/internal/provision"
	"github.com/purser-csi/purser/internal/sources"
)

// mutant is a deliberate bug in the controllers: each hook changes their requests, reads or events.
// The zero value has no bug.
type mutant struct {
	name          string
	client        func(api client.Client, cached client.Reader) client.Client
	cached        func(client.Reader) client.Reader
	driver        func(csi.ControllerClient, provisioning.Journal) csi.ControllerClient
	journal       func(provisioning.Journal) provisioning.Journal
	journalConfig func(*journal.Config)
	handlers      hook // which event handlers are registered
	hasty         bool // deletes volumes while a previous leader may create them
	keepsAttacher bool // leaves the attacher's finalizer, which it wrote with the volume
	forgets       bool // own writes, as if the overlay had none
	// reads is where the live reads of the provisioner come from.
	reads     func(live, cached client.Reader) client.Reader
	strangers bool // the creating and the deleting controllers do not share their volume locks

	repeats  int           // may do the same in a row; 0 for as it is
	sayAfter time.Duration // is a wait said; 0 for as it is
	wall     bool          // takes the wall clock for the time that passes
	mute     bool          // emits no events

	// by is the family that is likely to detect the mutant, and is run first.
	by string
	// costs says that the mutant does no harm but does too much: I6 is what must notice. Of others
	// it must notice more than that.
	costs bool

	// Of those that bind and protect.
	live        func(live, cached client.Reader) client.Reader // who answers for the API server
	moreBinders int                                            // that know nothing of each other

	// Of those that make volumes from sources.
	sources    func(provisioning.Sources) provisioning.Sources
	protection func(*sources.Config)
	unswept    bool // VolumeSnapshots are not listed

	// Of those that attach.
	of         role          // the one of the two that is broken; empty for both
	forceAfter time.Duration // 0 for as it is
	// writer is in place of the client whose writes the overlay has.
	writer func(recording, api client.Client, own *kube.Overlay) client.Client
}

// mutants must all be caught.
var mutants = []mutant{
	{name: "creates volumes without a record", journal: func(j provisioning.Journal) provisioning.Journal {
		return brokenJournal{Journal: j, record: func(context.Context, intent.Entry) error { return nil }}
	}},
	{name: "waits for the record neither when it is made nor before the call", journal: func(j provisioning.Journal) provisioning.Journal {
		return brokenJournal{Journal: unheld{j}, record: func(ctx context.Context, e intent.Entry) error {
			go func() { _ = j.Record(ctx, e) }()
			for ctx.Err() == nil {
				if _, begun := j.Pending(e.UID); begun {
					break
				}
				time.Sleep(time.Microsecond)
			}
			return nil
		}}
	}},
	{name: "keeps the record in memory", journal: func(provisioning.Journal) provisioning.Journal { return provisioning.NewMemory() }},
	{name: "resolves the entry before the volume is written", driver: resolvesEarly},
	{name: "never resolves an entry", journal: func(j provisioning.Journal) provisioning.Journal { return resolvesNever{j} }},
	{name: "repeats another request than the recorded one", journal: func(j provisioning.Journal) provisioning.Journal { return repeatsAnother{j} }},
	{name: "does not wait for calls of a former process", journalConfig: func(c *journal.Config) { c.PreviousCallsEnded = true }},
	{name: "does not say that it deletes what a claim waits for", by: "two leaders, and a write of the previous one arrives later", journal: func(j provisioning.Journal) provisioning.Journal {
		return unannounced{j}
	}},
	{name: "does not record the handle of a volume that it deletes", by: "crash", journal: func(j provisioning.Journal) provisioning.Journal {
		return forgetsHandles{j, &sync.Map{}}
	}},
	{name: "deletes volumes that a previous leader may create again", by: "claims deleted after a takeover", hasty: true},
	{name: "does not record that a call is repeated", by: "two crashes", client: hooks{update: forgetsRepeated}.client},
	{name: "writes the record over that of a new leader", by: "two leaders", client: hooks{update: overwrites}.client},
	{name: "takes over journal entries, however old", by: "no process for days", client: func(api client.Client, _ client.Reader) client.Client {
		return attended{api}
	}},
	{name: "repeats calls when another leads", by: "a former leader repeats", journal: func(j provisioning.Journal) provisioning.Journal {
		return unheld{j}
	}},
	{name: "takes an uncertain answer for a failure", by: "driver", driver: answers(func(err error) error {
		switch status.Code(err) {
		case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.Unavailable:
			return status.Error(codes.NotFound, err.Error())
		default:
			return err
		}
	})},
	{name: "takes a refusal for the answer to all calls", by: "refused after a call with an unknown outcome", journal: func(j provisioning.Journal) provisioning.Journal {
		return forgetsRefused{j}
	}},
	{name: "asks for the last request alone", by: "refused for what another request asks", journal: func(j provisioning.Journal) provisioning.Journal {
		return forgetsFormer{j}
	}},
	{name: "takes a failed deletion for a success", driver: func(d csi.ControllerClient, _ provisioning.Journal) csi.ControllerClient {
		return deletesBlindly{d}
	}},
	{name: "does not compare sizes", by: "driver", driver: func(d csi.ControllerClient, _ provisioning.Journal) csi.ControllerClient {
		return ignoresSize{d}
	}},
	{name: "forgets what it wrote", by: "watch", forgets: true, costs: true},
	{name: "shows for good what it wrote", writer: func(recording, _ client.Client, own *kube.Overlay) client.Client {
		return clings[*corev1.PersistentVolume]{recording, own}
	}},
	{name: "shows for good a claim whose node it gave back", writer: func(recording, _ client.Client, own *kube.Overlay) client.Client {
		return clings[*corev1.PersistentVolumeClaim]{recording, own}
	}},
	{name: "asks the cache where it should ask the API server", by: "watch", client: func(api client.Client, cached client.Reader) client.Client {
		return staleReads{api, cached}
	}},
	{name: "answers a Read of the provisioner from a stale cache", by: "watch", reads: func(live, cached client.Reader) client.Reader { return staleObjects{live, cached} }},
	{name: "looks in memory alone for others that have the volume", by: "watch", client: func(api client.Client, cached client.Reader) client.Client {
		return staleLists{api, cached}
	}},
	{name: "gives a claim the volume that it is deleting", by: "slow write", strangers: true},
	{name: "takes a volume of another driver for its own", by: "classes led to another driver", client: func(api client.Client, _ client.Reader) client.Client {
		return readsAs{api, func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = driverName }}
	}},
	{name: "does not see attachments", cached: func(r client.Reader) client.Reader { return blind{r} }},
	{name: "does not see finalizers", cached: func(r client.Reader) client.Reader {
		return edited{r, func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }}
	}},
	{name: "does not see reclaim policies", cached: func(r client.Reader) client.Reader {
		return edited{r, func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		}}
	}},
	{name: "takes each release for a new one", by: "watch", cached: func(r client.Reader) client.Reader {
		return edited{r, releaseNow}
	}},
	{name: "does not wait for the release", cached: func(r client.Reader) client.Reader { return edited{r, release} }, handlers: shown(release)},
	{name: "does not ask whose a released volume is", client: func(api client.Client, _ client.Reader) client.Client { return noClaims{api} }},
	{name: "deletes whatever has the name", by: "volumes replaced under their names", client: hooks{delete: func(ctx context.Context, c client.Client, o client.Object, _ []client.DeleteOption) error {
		return c.Delete(ctx, o)
	}}.client},
	{name: "drops the finalizer of whatever has the name", by: "volumes replaced under their names", client: hooks{patch: func(ctx context.Context, c client.Client, o client.Object, p client.Patch) error {
		data, err := p.Data(o)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(data), string(o.GetUID()), "")
		text = strings.ReplaceAll(text, `,"uid":""`, "")
		text = strings.ReplaceAll(text, `{"op":"test","path":"/metadata/uid","value":""},`, "")
		return c.Patch(ctx, o, client.RawPatch(p.Type(), []byte(text)))
	}}.client},
	{name: "never drops its finalizer", client: hooks{patch: func(ctx context.Context, c client.Client, o client.Object, p client.Patch) error {
		if data, err := p.Data(o); err != nil || strings.Contains(string(data), "deleteFrom") || p.Type() == types.JSONPatchType {
			return err
		}
		return c.Patch(ctx, o, p)
	}}.client},
	{name: "writes volumes without its finalizer", by: "watch", client: hooks{create: func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }}.client},
	{name: "writes volumes for a name instead of a claim", client: hooks{create: func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "" }}.client},
	{name: "never deletes the PersistentVolume", client: hooks{delete: func(context.Context, client.Client, client.Object, []client.DeleteOption) error {
		return nil
	}}.client},
}

// hooks are the changed behaviours of a broken client.
type hooks struct {
	create func(*corev1.PersistentVolume)
	update func(context.Context, client.Client, client.Object) error
	patch  func(context.Context, client.Client, client.Object, client.Patch) error
	delete func(context.Context, client.Client, client.Object, []client.DeleteOption) error
}

func (h hooks) client(api client.Client, _ client.Reader) client.Client { return hookedClient{api, h} }

type hookedClient struct {
	client.Client
	hooks hooks
}

func (c hookedClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if pv, ok := o.(*corev1.PersistentVolume); ok && c.hooks.create != nil {
		c.hooks.create(pv)
	}
	return c.Client.Create(ctx, o, opts...)
}

func (c hookedClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if c.hooks.update != nil {
		return c.hooks.update(ctx, c.Client, o)
	}
	return c.Client.Update(ctx, o, opts...)
}

func (c hookedClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if c.hooks.patch != nil {
		return c.hooks.patch(ctx, c.Client, o, p)
	}
	return c.Client.Patch(ctx, o, p, opts...)
}

func (c hookedClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if c.hooks.delete != nil {
		return c.hooks.delete(ctx, c.Client, o, opts)
	}
	return c.Client.Delete(ctx, o, opts...)
}

// overwrites writes a Lease whatever was written meanwhile.
func overwrites(ctx context.Context, c client.Client, o client.Object) error {
	err := c.Update(ctx, o)
	if _, ok := o.(*coordinationv1.Lease); !ok || !apierrors.IsConflict(err) {
		return err
	}
	now := &coordinationv1.Lease{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
		return err
	}
	o.SetResourceVersion(now.ResourceVersion)
	return c.Update(ctx, o)
}

// staleReads reads the users' objects from the cache in place of the API server.
type staleReads struct {
	client.Client
	cache client.Reader
}

func (s staleReads) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*coordinationv1.Lease); ok {
		return s.Client.Get(ctx, key, o, opts...)
	}
	return s.cache.Get(ctx, key, o, opts...)
}

// staleObjects reads claims and their volumes from the cache in place of the API server.
type staleObjects struct {
	client.Reader
	cache client.Reader
}

func (s staleObjects) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o.(type) {
	case *corev1.PersistentVolumeClaim, *corev1.PersistentVolume:
		return s.cache.Get(ctx, key, o, opts...)
	}
	return s.Reader.Get(ctx, key, o, opts...)
}

// staleLists has the list of all volumes from the cache.
type staleLists struct {
	client.Client
	cache client.Reader
}

func (s staleLists) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if all, ok := list.(*corev1.PersistentVolumeList); ok {
		return s.cache.List(ctx, all)
	}
	return s.Client.List(ctx, list, opts...)
}

// readsAs has the API server show volumes as edited.
type readsAs struct {
	client.Client
	edit func(*corev1.PersistentVolume)
}

func (r readsAs) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return edited{r.Client, r.edit}.Get(ctx, key, o, opts...)
}

// noClaims returns NotFound for each claim.
type noClaims struct{ client.Client }

func (n noClaims) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
		return apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), key.Name)
	}
	return n.Client.Get(ctx, key, o, opts...)
}

// blind returns no VolumeAttachments.
type blind struct{ client.Reader }

func (b blind) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*storagev1.VolumeAttachmentList); ok {
		return nil
	}
	return b.Reader.List(ctx, list, opts...)
}

// edited sees volumes that are not as they are.
type edited struct {
	client.Reader
	edit func(*corev1.PersistentVolume)
}

func (e edited) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := e.Reader.Get(ctx, key, o, opts...)
	if pv, ok := o.(*corev1.PersistentVolume); ok && err == nil {
		e.edit(pv)
	}
	return err
}

func release(pv *corev1.PersistentVolume) {
	pv.Status.Phase = corev1.VolumeReleased
	releaseNow(pv)
}

func releaseNow(pv *corev1.PersistentVolume) {
	pv.Status.LastPhaseTransitionTime = new(metav1.Now())
}

// shown has those who listen see each change of a volume lead to what is edited.
func shown(edit func(*corev1.PersistentVolume)) hook {
	look := func(o any) any {
		if pv, ok := o.(*corev1.PersistentVolume); ok {
			pv = pv.DeepCopy()
			edit(pv)
			return pv
		}
		return o
	}
	return func(_ client.Object, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
		return toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { h.OnAdd(look(o), false) },
			UpdateFunc: func(was, is any) { h.OnUpdate(was, look(is)) },
			DeleteFunc: func(o any) { h.OnDelete(look(o)) },
		}
	}
}

// answers changes the errors of CreateVolume.
func answers(change func(error) error) func(csi.ControllerClient, provisioning.Journal) csi.ControllerClient {
	return func(d csi.ControllerClient, _ provisioning.Journal) csi.ControllerClient { return answering{d, change} }
}

type answering struct {
	csi.ControllerClient
	change func(error) error
}

func (a answering) CreateVolume(ctx context.Context, in *csi.CreateVolumeRequest, opts ...grpc.CallOption) (*csi.CreateVolumeResponse, error) {
	out, err := a.ControllerClient.CreateVolume(ctx, in, opts...)
	return out, a.change(err)
}

type deletesBlindly struct{ csi.ControllerClient }

func (d deletesBlindly) DeleteVolume(ctx context.Context, in *csi.DeleteVolumeRequest, opts ...grpc.CallOption) (*csi.DeleteVolumeResponse, error) {
	_, _ = d.ControllerClient.DeleteVolume(ctx, in, opts...)
	return &csi.DeleteVolumeResponse{}, nil
}

type ignoresSize struct{ csi.ControllerClient }

func (d ignoresSize) CreateVolume(ctx context.Context, in *csi.CreateVolumeRequest, opts ...grpc.CallOption) (*csi.CreateVolumeResponse, error) {
	out, err := d.ControllerClient.CreateVolume(ctx, in, opts...)
	if v := out.GetVolume(); v != nil {
		v.CapacityBytes = 0
	}
	return out, err
}

// resolvesEarly resolves the entry as soon as the driver has answered, and then waits until the
// journal is written.
func resolvesEarly(d csi.ControllerClient, j provisioning.Journal) csi.ControllerClient {
	return earlySettler{d, j}
}

type earlySettler struct {
	csi.ControllerClient
	journal provisioning.Journal
}

func (e earlySettler) CreateVolume(ctx context.Context, in *csi.CreateVolumeRequest, opts ...grpc.CallOption) (*csi.CreateVolumeResponse, error) {
	out, err := e.ControllerClient.CreateVolume(ctx, in, opts...)
	if err == nil {
		_ = e.journal.Resolve(ctx, types.UID(strings.TrimPrefix(in.GetName(), "pvc-")))
		time.Sleep(11 * time.Second)
	}
	return out, err
}
