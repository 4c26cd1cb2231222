package binder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/view"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	m.Run()
}

// testCluster is an API server in memory, a user, and binders one after the other, in virtual time.
type testCluster struct {
	*testing.T
	server *apiserver.Server
	api    client.Client // the user's
	ctx    context.Context
	events *events
}

// inWorld runs a test until all is quiet. Nothing that it waits for may need an audit.
func inWorld(t *testing.T, test func(w *testCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := apiserver.New()
		test(&testCluster{T: t, server: server, api: server.Client(), ctx: ctx, events: &events{}})
		cancel()
		time.Sleep(2 * time.Minute) // every goroutine comes to its end
	})
}

// process is one binder with a cache of its own.
type process struct {
	*Controller
	view *view.View
	api  *countingClient
	stop context.CancelFunc
}

// start begins a binder, and lets it do what it has to do.
func (w *testCluster) start(edits ...func(*Config)) *process {
	w.Helper()
	p := w.prepare(edits...)
	w.run(p)
	return p
}

func (w *testCluster) prepare(edits ...func(*Config)) *process {
	api := &countingClient{Client: w.server.Client(), counts: map[string]int{}}
	cfg := Config{
		Live: api, Writer: api,
		Settings: reconcile.Settings{
			Workers: 8, Backoff: reconcile.Backoff{First: 50 * time.Millisecond, Most: time.Second}, Clock: clock.RealClock{}, Events: w.events,
			Decided: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "d"}, []string{"controller", "reason"}),
		},
		Measures: telemetry.NewBinding(prometheus.NewRegistry()), AuditEvery: 24 * time.Hour,
	}
	for _, edit := range edits {
		edit(&cfg)
	}
	v := view.New(w.server)
	v.Transform = kube.TrimTo(kube.PairFields)
	return &process{Controller: New(cfg), view: v, api: api}
}

func (w *testCluster) run(p *process) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	p.stop = cancel
	mgr := &fakeManager{view: p.view, client: p.api}
	if err := p.AddTo(ctx, mgr); err != nil {
		w.Fatal(err)
	}
	go func() { _ = p.view.Start(ctx) }()
	for _, r := range mgr.runnables {
		go func() { _ = r.Start(ctx) }()
	}
	w.settle()
}

// settle is long for everything but an audit.
func (w *testCluster) settle() { time.Sleep(5 * time.Second) }

func (w *testCluster) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		status, hasStatus := statusOf(o)
		if err := w.api.Create(w.ctx, o); err != nil {
			w.Fatal(err)
		}
		if hasStatus {
			status(o)
			if err := w.api.Status().Update(w.ctx, o); err != nil {
				w.Fatal(err)
			}
		}
	}
	w.settle()
}

// statusOf is the status that an object was given, which its creation takes away.
func statusOf(o client.Object) (restore func(client.Object), ok bool) {
	switch o := o.(type) {
	case *corev1.PersistentVolume:
		status := o.Status
		return func(o client.Object) { o.(*corev1.PersistentVolume).Status = status }, status.Phase != ""
	case *corev1.PersistentVolumeClaim:
		status := o.Status
		return func(o client.Object) { o.(*corev1.PersistentVolumeClaim).Status = status }, status.Phase != ""
	}
	return nil, false
}

// edit changes an object as a user does.
func edit[T client.Object](w *testCluster, o T, change func(T)) {
	w.Helper()
	if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(o), o); err != nil {
		w.Fatal(err)
	}
	change(o)
	if err := w.api.Update(w.ctx, o); err != nil {
		w.Fatal(err)
	}
	w.settle()
}

// remove deletes an object and takes its finalizers off.
func (w *testCluster) remove(o client.Object) {
	w.Helper()
	if err := w.api.Delete(w.ctx, o); err != nil {
		w.Fatal(err)
	}
	if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(o), o); err == nil {
		o.SetFinalizers(nil)
		if err := w.api.Update(w.ctx, o); err != nil {
			w.Fatal(err)
		}
	}
	w.settle()
}

// state is all claims and volumes in lines.
func (w *testCluster) state() string {
	var lines []string
	for _, c := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s %s", c.Name, c.Status.Phase, c.Spec.VolumeName), " "))
	}
	for _, v := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		line := fmt.Sprintf("%s %s", v.Name, v.Status.Phase)
		if ref := v.Spec.ClaimRef; ref != nil {
			line += " " + ref.Name
			if ref.UID == "" {
				line += " by name"
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func (w *testCluster) expect(want string) {
	w.Helper()
	if got := w.state(); got != want {
		w.Errorf("got  %s\nwant %s", got, want)
	}
}

// did compares what a binder asked of the API server since the last time.
func (w *testCluster) did(p *process, want string) {
	w.Helper()
	if got := p.api.take(); got != want {
		w.Errorf("asked %q, want %q", got, want)
	}
}

// wantEvents compares the events since the last time.
func (w *testCluster) wantEvents(want ...string) {
	w.Helper()
	if got := w.events.take(); !slices.Equal(got, want) {
		w.Errorf("told %q, want %q", got, want)
	}
}

func staticClass(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner"}
}

func dynamicClass(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "d"}
}

// events are the emitted events.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) Event(o runtime.Object, kind, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := o.(client.Object).GetName()
	if len(message) > 60 {
		message = message[:60]
	}
	e.all = append(e.all, fmt.Sprintf("%s %s %s %s", name, kind, reason, message))
}

func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// countingClient counts what is asked and what is refused.
type countingClient struct {
	client.Client
	mu     sync.Mutex
	counts map[string]int
	before func(o client.Object, what string) error // is called before each write; an error takes the place of the write
}

func (c *countingClient) count(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) && what != "get" {
		c.counts["refused"]++
	}
}

func (c *countingClient) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for what, n := range c.counts {
		all = append(all, fmt.Sprint(n, " ", what))
	}
	slices.Sort(all)
	c.counts = map[string]int{}
	return strings.Join(all, ", ")
}

func (c *countingClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, opts...)
	c.count("get", err)
	return err
}

func (c *countingClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.write(o, "", func() error { return c.Client.Patch(ctx, o, p, opts...) })
}

func (c *countingClient) Status() client.SubResourceWriter {
	return countingStatus{c.Client.Status(), c}
}

func (c *countingClient) write(o client.Object, part string, do func() error) error {
	what := "claim" + part
	if _, ok := o.(*corev1.PersistentVolume); ok {
		what = "volume" + part
	}
	if err := c.begin(o, what); err != nil {
		return err
	}
	err := do()
	c.count(what, err)
	return err
}

func (c *countingClient) begin(o client.Object, what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before == nil {
		return nil
	}
	return c.before(o, what)
}

// meet has writes looked at from now on.
func (c *countingClient) meet(before func(o client.Object, what string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = before
}

type countingStatus struct {
	client.SubResourceWriter
	client *countingClient
}

func (s countingStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.client.write(o, " status", func() error { return s.SubResourceWriter.Patch(ctx, o, p, opts...) })
}

// fakeManager is as much of a manager as the controller uses.
type fakeManager struct {
	manager.Manager
	view      *view.View
	client    client.Client
	runnables []manager.Runnable
}

func (m *fakeManager) Add(r manager.Runnable) error { m.runnables = append(m.runnables, r); return nil }
func (m *fakeManager) GetCache() cache.Cache        { return m.view }
func (m *fakeManager) GetScheme() *runtime.Scheme   { return m.client.Scheme() }
func (m *fakeManager) GetLogger() logr.Logger       { return logr.Discard() }

// GetControllerOptions chooses the queue of client-go, since the other one can leave a goroutine
// behind.
func (m *fakeManager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}
}
