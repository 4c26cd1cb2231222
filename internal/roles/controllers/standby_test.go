package controllers_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/purser-csi/purser/internal/binder"
	"github.com/purser-csi/purser/internal/ephemeral"
	"github.com/purser-csi/purser/internal/journal"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/protection"
	"github.com/purser-csi/purser/internal/provision"
	rules "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reclaim"
	reclaiming "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/resize"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/view"
)

const driver = "d"

// A process that waits for its lease knows everything and remembers nothing of what came and went:
// in its queues, no worker would take it. With the lease it does at once what there is to do.
func TestStandby(t *testing.T) {
	ctrllog.SetLogger(logr.Discard())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := apiserver.New()
		api := server.Client()
		mgr := standby(ctx, t, server)
		for i := range 100 {
			live(ctx, t, api, fmt.Sprint("short-", i))
		}
		time.Sleep(time.Minute)
		for name, depth := range queues(t) {
			if depth > 0 {
				t.Errorf("%v keys in the queue %s of a process without a lease", depth, name)
			}
		}
		claim, pv := claimOf("c"), volumeOf("v")
		for _, o := range []client.Object{claim, pv, podOf("p")} {
			try(t, api.Create(ctx, o))
		}
		time.Sleep(time.Minute)
		for _, r := range mgr.runnables {
			go func() { _ = r.Start(ctx) }()
		}
		time.Sleep(time.Second)
		try(t, api.Get(ctx, client.ObjectKeyFromObject(claim), claim))
		if claim.Status.Phase != corev1.ClaimBound || len(claim.Finalizers) != 1 {
			t.Errorf("a second after the election: %s, %v", claim.Status.Phase, claim.Finalizers)
		}
		try(t, api.Get(ctx, client.ObjectKey{Namespace: "default", Name: "p-data"}, claim))
		cancel()
		time.Sleep(2 * time.Minute)
	})
}

// standby is a process with all controllers that knows what there is and has no lease.
func standby(ctx context.Context, t *testing.T, server *apiserver.Server) *fakeManager {
	t.Helper()
	v, api := view.New(server), server.Client()
	v.Transform = kube.TrimTo(kube.PairFields)
	mgr := &fakeManager{view: v, client: api}
	settings := reconcile.Settings{
		Workers: 2, Backoff: reconcile.Backoff{First: time.Second, Most: time.Minute}, Clock: clock.RealClock{}, Events: silent{},
		Decided: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "d"}, []string{"controller", "reason"}),
	}
	own := kube.NewOverlay(v, clock.RealClock{})
	protecting := protection.Config{Cached: own, Live: api, Writer: api, Settings: settings}
	record := journal.New(journal.Config{Live: api, Writer: api, Namespace: "kube-system", Name: "j", Holder: "h"})
	for _, c := range []interface {
		AddTo(ctx context.Context, mgr manager.Manager) error
	}{
		binder.New(binder.Config{Live: api, Writer: api, Settings: settings}),
		protection.NewClaims(protecting), protection.NewUnused(protecting), protection.NewVolumes(protecting),
		resize.NewExpansion(resize.ExpansionConfig{Cached: own, Writer: api, Settings: settings}),
		ephemeral.New(ephemeral.Config{Cached: own, Live: api, Writer: api, Settings: settings}),
		provision.New(provision.Config{
			Cached: own, Live: api, Writer: api, Journal: record, Driver: rules.Driver{Name: driver}, Settings: settings,
		}),
		reclaim.New(reclaim.Config{
			Cached: own, Live: api, Writer: api, Driver: reclaiming.Driver{Name: driver}, Settings: settings,
		}),
	} {
		try(t, c.AddTo(ctx, mgr))
	}
	go func() { _ = v.Start(ctx) }()
	for _, r := range mgr.runnables {
		if warm, ok := r.(interface{ Warmup(context.Context) error }); ok {
			try(t, warm.Warmup(ctx))
		}
	}
	return mgr
}

// live is the whole life of a claim that a provisioner is asked for, of its volume and of a pod
// with a volume of its own.
func live(ctx context.Context, t *testing.T, api client.Client, name string) {
	t.Helper()
	claim, pv, pod := claimOf(name), volumeOf(name), podOf(name)
	claim.Annotations = map[string]string{names.AnnStorageProvisioner: driver}
	pv.Annotations = map[string]string{names.AnnProvisionedBy: driver}
	for _, o := range []client.Object{claim, pv, pod} {
		try(t, api.Create(ctx, o))
	}
	pv.Status.Phase = corev1.VolumeReleased
	try(t, api.Status().Update(ctx, pv))
	time.Sleep(time.Second)
	for _, o := range []client.Object{claim, pv, pod} {
		try(t, api.Delete(ctx, o))
		if err := api.Get(ctx, client.ObjectKeyFromObject(o), o); err == nil {
			o.SetFinalizers(nil)
			try(t, api.Update(ctx, o))
		}
	}
}

func claimOf(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("a"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

func volumeOf(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: "a", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
	}}
}

func podOf(name string) *corev1.Pod {
	template := &corev1.PersistentVolumeClaimTemplate{Spec: claimOf("").Spec}
	template.Spec.StorageClassName = new("none")
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template}},
	}}}}
}

// queues are the lengths of the work queues of this process.
func queues(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	try(t, err)
	lengths := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "workqueue_depth" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "name" {
					lengths[label.GetValue()] += m.GetGauge().GetValue()
				}
			}
		}
	}
	return lengths
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type silent struct{}

func (silent) Event(runtime.Object, string, string, string) {}

// fakeManager is as much of a manager as the controllers use.
type fakeManager struct {
	manager.Manager
	view      *view.View
	client    client.Client
	runnables []manager.Runnable
}

func (m *fakeManager) Add(r manager.Runnable) error         { m.runnables = append(m.runnables, r); return nil }
func (m *fakeManager) GetFieldIndexer() client.FieldIndexer { return m.view }
func (m *fakeManager) GetCache() cache.Cache                { return m.view }
func (m *fakeManager) GetScheme() *runtime.Scheme           { return m.client.Scheme() }
func (m *fakeManager) GetLogger() logr.Logger               { return logr.Discard() }

// GetControllerOptions chooses the queue of client-go, since the other one can leave a goroutine
// behind.
func (m *fakeManager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}
}
