package binder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// liveCluster is a real API server, without controllers.
func liveCluster(t testing.TB) *rest.Config {
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
	api := c.RESTConfig()
	api.QPS = -1
	return api
}

// liveBinder runs a binder until the test ends.
func liveBinder(t testing.TB, api *rest.Config) *Controller {
	t.Helper()
	mgr, err := manager.New(api, manager.Options{
		Scheme: kube.NewScheme(), Logger: logr.Discard(),
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.PersistentVolume{}:      {Transform: kube.TrimTo(kube.PairFields)},
			&corev1.PersistentVolumeClaim{}: {Transform: kube.TrimTo(kube.PairFields)},
			&corev1.Pod{}:                   {Transform: kube.TrimPod},
		}},
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := New(Config{
		Live: mgr.GetAPIReader(), Writer: mgr.GetClient(),
		Settings: reconcile.Settings{
			Backoff: reconcile.Backoff{First: 20 * time.Millisecond, Most: time.Second}, Clock: clock.RealClock{}, Events: discard{},
			Decided: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "d"}, []string{"controller", "reason"}),
		},
	})
	if err := b.AddTo(t.Context(), mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the caches are not warm")
	}
	return b
}

func liveVolume(name, class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName:       class,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}},
		},
	}
}

func liveClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// inParallel does n things, many at a time.
func inParallel(t testing.TB, n int, do func(i int) error) {
	t.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range 32 {
		all.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// boundClaims waits until so many claims are bound.
func boundClaims(ctx context.Context, t testing.TB, api *rest.Config, n int) {
	t.Helper()
	watching, err := cache.New(api, cache.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	done, bound := make(chan struct{}), map[string]bool{}
	informer, err := watching.GetInformer(ctx, &corev1.PersistentVolumeClaim{}, cache.BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	see := func(in any) {
		if claim, ok := in.(*corev1.PersistentVolumeClaim); ok && claim.Status.Phase == corev1.ClaimBound && !bound[claim.Name] {
			if bound[claim.Name] = true; len(bound) == n {
				close(done)
			}
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, in any) { see(in) }}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = watching.Start(ctx) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%d of %d claims are bound", len(bound), n)
	}
}

// BenchmarkBindStatic binds 1,000 claims to volumes that are there, on a real API server, beside a
// client that only makes the writes.
func BenchmarkBindStatic(b *testing.B) {
	const n = 1000
	for b.Loop() {
		api := liveCluster(b)
		plain, err := client.New(api, client.Options{Scheme: kube.NewScheme()})
		if err != nil {
			b.Fatal(err)
		}
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "static"}, Provisioner: "kubernetes.io/no-provisioner"}
		if err := plain.Create(b.Context(), class); err != nil {
			b.Fatal(err)
		}
		floor := bareClient(b, api, plain, n)
		inParallel(b, n, func(i int) error {
			pv := liveVolume(fmt.Sprint("v", i), "static")
			return errors.Join(plain.Create(b.Context(), pv), plain.Status().Patch(b.Context(), pv, kube.PhaseUnchanged(pv, corev1.VolumeAvailable, "")),
				plain.Create(b.Context(), liveClaim(fmt.Sprint("c", i), "static")))
		})
		began := time.Now()
		liveBinder(b, api)
		boundClaims(b.Context(), b, api, 2*n)
		b.ReportMetric(floor, "floor/s")
		b.ReportMetric(n/time.Since(began).Seconds(), "bound/s")
	}
}

// bareClient makes the four writes for n pairs and nothing else.
func bareClient(b testing.TB, _ *rest.Config, api client.Client, n int) float64 {
	b.Helper()
	volumes, claims := make([]*corev1.PersistentVolume, n), make([]*corev1.PersistentVolumeClaim, n)
	inParallel(b, n, func(i int) error {
		volumes[i], claims[i] = liveVolume(fmt.Sprint("f", i), "floor"), liveClaim(fmt.Sprint("f", i), "floor")
		if err := api.Create(b.Context(), volumes[i]); err != nil {
			return err
		}
		return api.Create(b.Context(), claims[i])
	})
	began := time.Now()
	inParallel(b, n, func(i int) error {
		pv, claim := volumes[i], claims[i]
		if err := api.Patch(b.Context(), pv, kube.TakeVolume(pv, claim, true)); err != nil {
			return err
		}
		if err := api.Status().Patch(b.Context(), pv, kube.PhaseOfOwned(pv, claim.UID, corev1.VolumeBound, "")); err != nil {
			return err
		}
		if err := api.Patch(b.Context(), claim, kube.NameVolume(claim, pv.Name, true)); err != nil {
			return err
		}
		return api.Status().Patch(b.Context(), claim, kube.BindStatus(claim, pv.Name, kube.BoundClaim{AccessModes: pv.Spec.AccessModes, Capacity: pv.Spec.Capacity}))
	})
	return float64(n) / time.Since(began).Seconds()
}

type discard struct{}

func (discard) Event(runtime.Object, string, string, string) {}
