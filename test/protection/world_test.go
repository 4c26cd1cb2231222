package protection

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/ephemeral"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/protection"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/resize"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/telemetry"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	m.Run()
}

// world is an API server and our controllers.
type world struct {
	client.Client
	t        *testing.T
	requests *requests
}

// newWorld starts both.
func newWorld(t *testing.T) *world {
	t.Helper()
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), filepath.Join("..", "..", "bin"))
	if err != nil {
		t.Skip(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{Dir: t.TempDir(), Binaries: binaries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	api, err := client.New(c.RESTConfig(), client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Client: api, t: t, requests: &requests{counts: map[string]int{}}}
	w.control(c.RESTConfig())
	// What kube-controller-manager would do for pods to be admitted.
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})
	return w
}

// control runs the controllers as the role does.
func (w *world) control(api *rest.Config) {
	w.t.Helper()
	counted := rest.CopyConfig(api)
	counted.QPS = -1
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper { return w.requests.counting(next) })
	mgr, err := manager.New(counted, manager.Options{
		Scheme: kube.NewScheme(), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache:      ctrlcache.Options{DefaultTransform: registry.Trim(controllers.All(nil)), DefaultUnsafeDisableDeepCopy: new(false)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	events, err := kube.NewEvents(ctx, kube.EventsConfig{API: api, Component: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	settings := reconcile.Settings{
		Workers: 16, Backoff: reconcile.Backoff{First: 100 * time.Millisecond, Most: time.Second}, Clock: clock.RealClock{}, Events: events,
		Decided: telemetry.NewCounter(prometheus.NewRegistry(), telemetry.MetricDecisions),
	}
	own := kube.NewOverlay(mgr.GetClient(), clock.RealClock{})
	writer := own.Recording(mgr.GetClient())
	config := protection.Config{Cached: own, Live: mgr.GetAPIReader(), Writer: writer, Settings: settings}
	for _, c := range []interface {
		AddTo(ctx context.Context, mgr manager.Manager) error
	}{
		protection.NewClaims(config), protection.NewUnused(config), protection.NewVolumes(config), protection.NewClasses(config),
		resize.NewExpansion(resize.ExpansionConfig{Cached: own, Writer: writer, Settings: settings}),
		ephemeral.New(ephemeral.Config{Cached: own, Live: mgr.GetAPIReader(), Writer: writer, Settings: settings}),
	} {
		if err := c.AddTo(ctx, mgr); err != nil {
			w.t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the manager ended: %v", err)
		}
		events.Close()
	})
}

// requests counts what the controllers ask of the API server, watches and events apart.
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *requests) counting(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.URL.Query().Get("watch") != "" {
			return next.RoundTrip(request)
		}
		// It counts before it is sent: a test can see its effect before the answer comes.
		what := request.Method + " pods"
		if !strings.Contains(request.URL.Path, "/pods") {
			what = request.Method + " " + path.Base(path.Dir(request.URL.Path))
		}
		r.note(what)
		answer, err := next.RoundTrip(request)
		if err == nil && answer.StatusCode >= http.StatusBadRequest {
			r.note(fmt.Sprint(answer.StatusCode))
		}
		return answer, err
	})
}

func (r *requests) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

// since is what was counted from now until the returned function is called.
func (r *requests) since() func() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.counts)
	return func() map[string]int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return maps.Clone(r.counts)
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.Create(w.t.Context(), o); client.IgnoreAlreadyExists(err) != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(o client.Object, opts ...client.DeleteOption) {
	w.t.Helper()
	if err := w.Delete(w.t.Context(), o, opts...); err != nil {
		w.t.Fatal(err)
	}
}

// status writes the status of an object as the edit makes it.
func status[T client.Object](w *world, o T, edit func(T)) {
	w.t.Helper()
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		w.t.Fatal("a copy of an object is none")
	}
	edit(o)
	if err := w.Status().Patch(w.t.Context(), o, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exists(o client.Object) bool {
	w.t.Helper()
	err := w.Get(w.t.Context(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

func (w *world) goes(o client.Object) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%T %s goes", o, o.GetName()), func() bool { return !w.exists(o) })
}

func (w *world) stays(o client.Object) {
	w.t.Helper()
	if !w.exists(o) {
		w.t.Fatalf("%T %s is gone", o, o.GetName())
	}
}

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	w.t.Fatalf("in vain: %s", what)
}

// events returns the number of events with this reason and message about an object.
func (w *world) events(about, reason, message string) int {
	w.t.Helper()
	var events corev1.EventList
	if err := w.List(w.t.Context(), &events, client.InNamespace("default")); err != nil {
		w.t.Fatal(err)
	}
	times := 0
	for i := range events.Items {
		if e := &events.Items[i]; e.InvolvedObject.Name == about && e.Reason == reason && e.Message == message {
			times += int(max(e.Count, 1))
		}
	}
	return times
}
