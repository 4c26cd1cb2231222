package sources

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// cloneOf is a request for a clone of the volume with a handle.
func cloneOf(handle string) source.Request {
	return source.Request{Volume: "pvc-c", Content: &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: handle},
	}}}
}

// the instance of one node keeps the source of a call that the instance of another node made,
// and whose outcome that one does not know, and that of a request which the next leader would find.
func TestSourceOfACallOnAnotherNode(t *testing.T) {
	ref := source.Ref{Kind: source.KindClaim}
	ref.Namespace, ref.Name = "crew", "logbook"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: "u", Finalizers: []string{ref.Finalizer()}},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example", VolumeHandle: "h"}
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(claim, pv)
	for _, index := range Indexes() {
		builder.WithIndex(index.Kind, index.Field, index.Values)
	}
	api, clock := builder.Build(), clocktesting.NewFakeClock(time.Unix(1000, 0))
	call := cloneOf("h")
	unflushed := error(nil)
	elsewhere, unknown := []source.Request{call}, errors.New("busy")
	c := New(Config{
		Settings: reconcile.Settings{Clock: clock}, Cached: api, Live: api, Writer: api, Driver: "csi.example",
		Asks:      func(*corev1.PersistentVolumeClaim) bool { return true },
		Requests:  func(context.Context) ([]source.Request, error) { return nil, nil },
		Flushed:   func(context.Context) error { return unflushed },
		Elsewhere: func(context.Context) ([]source.Request, error) { return elsewhere, unknown },
	})
	attempt := func() (source.Verdict, error) {
		t.Helper()
		h, err := c.Gather(t.Context(), ref)
		if err != nil {
			t.Fatalf("%+v, %v", h, err)
		}
		h, v, err := verdict.Settle(h, func(h source.Held) source.Verdict { return c.Decide(h, clock.Now()) },
			func(h source.Held, refs []verdict.Ref) (source.Held, error) { return c.Read(t.Context(), h, refs) })
		if _, removes := v.(verdict.Do[source.Action]); err != nil || !removes {
			return v, err
		}
		return c.Apply(t.Context(), h, source.Unprotect{})
	}
	isProtected := func() bool {
		now, err := kube.Get(t.Context(), api, ref.NamespacedName, &corev1.PersistentVolumeClaim{})
		return err == nil && source.IsProtected(now, ref)
	}
	if _, err := attempt(); !errors.Is(err, unknown) || !isProtected() {
		t.Errorf("it is not known what other nodes do: %v, protected: %v", err, isProtected())
	}
	unknown = nil
	next, err := attempt()
	if kept, ok := next.(verdict.Wait[source.Action]); err != nil || !ok || !kept.Until.After(clock.Now()) || !isProtected() {
		t.Errorf("another node has a call: %+v, %v, protected: %v", next, err, isProtected())
	}
	elsewhere, unflushed = nil, errors.New("another process has taken over")
	if _, err := attempt(); !errors.Is(err, unflushed) || !isProtected() {
		t.Errorf("the next leader may know of a call: %v, protected: %v", err, isProtected())
	}
	unflushed = nil
	if next, err := attempt(); err != nil || next != nil || isProtected() {
		t.Errorf("no node has a call: %+v, %v, protected: %v", next, err, isProtected())
	}
}

// A call that begins between the decision and the write keeps the finalizer: the users are read again.
func TestCallThatBeginsBeforeTheWrite(t *testing.T) {
	ref := source.Ref{Kind: source.KindClaim}
	ref.Namespace, ref.Name = "crew", "logbook"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ref.Namespace, Name: ref.Name, UID: "u", Finalizers: []string{ref.Finalizer()},
			Annotations: map[string]string{names.AnnStorageProvisioner: "csi.example"},
		},
	}
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(claim)
	for _, index := range Indexes() {
		builder.WithIndex(index.Kind, index.Field, index.Values)
	}
	api, clock := builder.Build(), clocktesting.NewFakeClock(time.Unix(1000, 0))
	var c *Controller
	begins := true
	c = New(Config{
		Settings: reconcile.Settings{
			Clock: clock, Decided: telemetry.NewCounter(prometheus.NewRegistry(), telemetry.MetricDecisions), Events: &recorded{},
		},
		Cached: api, Live: api, Writer: api, Driver: "csi.example",
		Requests: func(context.Context) ([]source.Request, error) { return nil, nil },
		Flushed:  func(context.Context) error { return nil },
		Elsewhere: func(ctx context.Context) ([]source.Request, error) { // the last read before the write
			if !begins {
				return nil, nil
			}
			begins = false
			return nil, c.Protect(ctx, provision.ProtectSource{Source: source.State{Ref: ref, Claim: claim.DeepCopy()}}, "of the call")
		},
	})
	isProtected := func() bool {
		now, err := kube.Get(t.Context(), api, ref.NamespacedName, &corev1.PersistentVolumeClaim{})
		return err == nil && source.IsProtected(now, ref)
	}
	loop := c.Loop()
	if _, err := loop.Reconcile(t.Context(), ref); err != nil || begins || !isProtected() {
		t.Errorf("%v, a call has begun: %v, protected: %v", err, !begins, isProtected())
	}
	c.Done("of the call")
	if _, err := loop.Reconcile(t.Context(), ref); err != nil || isProtected() {
		t.Errorf("%v, protected: %v", err, isProtected())
	}
}

// recorded has the reasons of events, with their objects.
type recorded struct{ events []string }

func (r *recorded) Event(o runtime.Object, _, reason, message string) {
	name := "?"
	if object, is := o.(client.Object); is {
		name = object.GetName()
	}
	r.events = append(r.events, name+" "+reason+": "+message)
}

// A clone whose outcome is not known, whose claim and secret are gone, keeps its source: after a
// minute the source says so, if it is being deleted.
func TestDeletionThatWaitsIsSaid(t *testing.T) {
	ref := source.Ref{Kind: source.KindClaim}
	ref.Namespace, ref.Name = "crew", "logbook"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ref.Namespace, Name: ref.Name, UID: "u", Finalizers: []string{ref.Finalizer()}, DeletionTimestamp: new(metav1.Now()),
		},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example", VolumeHandle: "h"}
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(claim, pv)
	for _, index := range Indexes() {
		builder.WithIndex(index.Kind, index.Field, index.Values)
	}
	api, clock, events := builder.Build(), clocktesting.NewFakeClock(time.Unix(1000, 0)), &recorded{}
	request := cloneOf("h")
	request.Secret.Namespace, request.Secret.Name = "vault", "create"
	loop := New(Config{
		Settings: reconcile.Settings{
			Clock: clock, Events: events, Decided: telemetry.NewCounter(prometheus.NewRegistry(), telemetry.MetricDecisions),
		},
		Cached: api, Live: api, Writer: api, Driver: "csi.example",
		Asks:     func(*corev1.PersistentVolumeClaim) bool { return true },
		Requests: func(context.Context) ([]source.Request, error) { return []source.Request{request}, nil },
		Flushed:  func(context.Context) error { return nil },
	}).Loop()
	for _, wait := range []time.Duration{0, time.Minute} {
		clock.Step(wait)
		if len(events.events) > 0 {
			t.Errorf("too early: %q", events.events)
		}
		if result, err := loop.Reconcile(t.Context(), ref); err != nil || result.RequeueAfter <= 0 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	if len(events.events) != 1 || !strings.HasPrefix(events.events[0], "logbook SourceDeletionAwaits: ") ||
		!strings.Contains(events.events[0], "Secret vault/create") {
		t.Errorf("events %q", events.events)
	}
}

// countedAPI counts the requests about VolumeSnapshots.
type countedAPI struct {
	client.Client
	reads, writes int
}

func (c *countedAPI) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	c.reads++
	return c.Client.Get(ctx, key, into, o...)
}

func (c *countedAPI) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	c.writes++
	return c.Client.Update(ctx, o, opts...)
}

// restoredFrom returns a snapshot with its content, and the controller of its finalizer.
func restoredFrom(t *testing.T) (*Controller, *countedAPI, source.State) {
	t.Helper()
	s := source.State{Ref: source.Ref{Group: names.SnapshotGroup, Kind: source.KindSnapshot}}
	s.Ref.Namespace, s.Ref.Name = "crew", "s"
	s.Snapshot = &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "crew", Name: "s", UID: "u"},
		Status:     &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: new("content")},
	}
	s.Content = &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content"},
		Spec:       snapshotv1.VolumeSnapshotContentSpec{Driver: "csi.example"},
		Status:     &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: new("h")},
	}
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(s.Snapshot, s.Content)
	for _, index := range Indexes() {
		builder.WithIndex(index.Kind, index.Field, index.Values)
	}
	api := &countedAPI{Client: builder.Build()}
	if err := api.Client.Get(t.Context(), s.Ref.NamespacedName, s.Snapshot); err != nil {
		t.Fatal(err)
	}
	s.Cached = true
	return New(Config{
		Settings: reconcile.Settings{
			Clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), Events: &recorded{},
			Decided: telemetry.NewCounter(prometheus.NewRegistry(), telemetry.MetricDecisions),
		},
		Cached: api.Client, Live: api, Writer: api, Driver: "csi.example", Snapshots: api.Client,
		Requests: func(context.Context) ([]source.Request, error) { return nil, nil },
		Flushed:  func(context.Context) error { return nil },
	}), api, s
}

// A restore has two writes for its snapshot, and no read.
func TestRequestsOfARestore(t *testing.T) {
	c, api, s := restoredFrom(t)
	for _, claim := range []types.UID{"a", "b"} {
		if err := c.Protect(t.Context(), provision.ProtectSource{Source: s}, claim); err != nil {
			t.Fatal(err)
		}
	}
	for _, claim := range []types.UID{"a", "b"} {
		c.Done(claim)
		if _, err := c.Loop().Reconcile(t.Context(), s.Ref); err != nil {
			t.Fatal(err)
		}
	}
	now := &snapshotv1.VolumeSnapshot{}
	if err := api.Client.Get(t.Context(), s.Ref.NamespacedName, now); err != nil || source.IsProtected(now, s.Ref) {
		t.Errorf("%v, finalizers %v", err, now.Finalizers)
	}
	if api.reads != 0 || api.writes != 2 {
		t.Errorf("%d reads and %d writes", api.reads, api.writes)
	}
}

// A cached snapshot that another one has replaced is not protected, and no volume is made from it.
func TestReplacedSnapshot(t *testing.T) {
	c, api, s := restoredFrom(t)
	again := s.Snapshot.DeepCopy()
	again.UID, again.ResourceVersion = "v", ""
	if err := errors.Join(api.Delete(t.Context(), s.Snapshot.DeepCopy()), api.Create(t.Context(), again)); err != nil {
		t.Fatal(err)
	}
	if err := c.Protect(t.Context(), provision.ProtectSource{Source: s}, "a"); !errors.Is(err, errReplaced) {
		t.Errorf("%v", err)
	}
}

// A cached snapshot that has changed is protected after a read.
func TestChangedSnapshot(t *testing.T) {
	c, api, s := restoredFrom(t)
	now := s.Snapshot.DeepCopy()
	now.Labels = map[string]string{"a": "b"}
	if err := api.Client.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := c.Protect(t.Context(), provision.ProtectSource{Source: s}, "a"); err != nil || api.reads != 1 {
		t.Errorf("%v, %d reads", err, api.reads)
	}
	if err := api.Client.Get(t.Context(), s.Ref.NamespacedName, now); err != nil || !source.IsProtected(now, s.Ref) ||
		now.Labels["a"] != "b" {
		t.Errorf("%v, %+v", err, now.ObjectMeta)
	}
}
