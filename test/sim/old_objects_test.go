package sim

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/binder"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/protection"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/view"
)

// oldWorld has claims from before the start of the controllers, which lack what a first start adds to each: the
// condition Unused on claims, the protecting finalizer on volumes.
type oldWorld struct {
	ctx    context.Context
	server *apiserver.Server
	api    client.Client
	start  time.Time
}

const oldPairs = 400

func (w *oldWorld) populate(t *testing.T) {
	t.Helper()
	for i := range oldPairs {
		pv, claim := w.pair(fmt.Sprint("old-", i))
		pv.Spec.ClaimRef.UID = claim.UID
		w.must(t, w.api.Create(w.ctx, pv), w.api.Create(w.ctx, claim))
		pv.Spec.ClaimRef.UID = claim.UID
		w.must(t, w.api.Update(w.ctx, pv))
		pv.Finalizers = nil
		w.must(t, w.api.Update(w.ctx, pv))
		pv.Status.Phase, claim.Status.Phase = corev1.VolumeBound, corev1.ClaimBound
		claim.Status.Capacity, claim.Status.AccessModes = pv.Spec.Capacity, pv.Spec.AccessModes
		w.must(t, w.api.Status().Update(w.ctx, pv), w.api.Status().Update(w.ctx, claim))
	}
}

func (w *oldWorld) must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// pair returns a volume and a claim that are bound to each other.
func (w *oldWorld) pair(name string) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:               &corev1.ObjectReference{Namespace: protectedNamespace, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: name}},
		},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: protectedNamespace, Name: name, Finalizers: []string{names.FinalizerPVCProtection},
			Annotations: map[string]string{names.AnnBindCompleted: "yes"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: pv.Name, StorageClassName: new(""),
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	return pv, claim
}

func (w *oldWorld) run(t *testing.T, backlog *reconcile.Backlog) {
	t.Helper()
	v := view.New(w.server)
	v.Transform = kube.TrimTo(kube.PairFields)
	mgr := &fakeManager{view: v, client: w.api}
	own := kube.NewOverlay(v, clock.RealClock{})
	set := settings(10)
	set.Backlog = backlog
	protecting := protection.Config{Cached: own, Live: w.api, Writer: own.Recording(w.api), Settings: set}
	w.must(t,
		binder.New(binder.Config{Live: w.api, Writer: w.api, Settings: set, AuditEvery: never}).AddTo(w.ctx, mgr),
		protection.NewUnused(protecting).AddTo(w.ctx, mgr), protection.NewVolumes(protecting).AddTo(w.ctx, mgr))
	w.start = time.Now()
	go func() { _ = v.Start(w.ctx) }()
	for _, r := range mgr.runnables {
		go func() { _ = r.Start(w.ctx) }()
	}
}

// writes returns how many writes of claims and volumes there were beyond these.
func (w *oldWorld) writes(claims, volumes int) int {
	return len(w.server.History(&corev1.PersistentVolumeClaim{}, 0)) - claims +
		len(w.server.History(&corev1.PersistentVolume{}, 0)) - volumes
}

// The start of the controllers beside hundreds of claims that lack what later versions add writes them slowly, and
// a new claim is bound at once. Without the backlog all of them are written in the first second.
func TestOldObjectsAreWrittenSlowly(t *testing.T) {
	play := func(t *testing.T, backlog *reconcile.Backlog) (first, most, total int, bound time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			server := apiserver.New()
			w := &oldWorld{ctx: ctx, server: server, api: server.Client()}
			w.populate(t)
			time.Sleep(time.Hour)
			claims, volumes := len(server.History(&corev1.PersistentVolumeClaim{}, 0)), len(server.History(&corev1.PersistentVolume{}, 0))
			w.run(t, backlog)
			time.Sleep(time.Second)
			first = w.writes(claims, volumes)
			bound = w.bindNew(t)
			last := w.writes(claims, volumes)
			for range 60 {
				time.Sleep(time.Second)
				total = w.writes(claims, volumes)
				most, last = max(most, total-last), total
			}
			cancel()
			synctest.Wait()
		})
		return first, most, total, bound
	}
	first, most, total, bound := play(t, &reconcile.Backlog{})
	t.Logf("with a backlog: %d writes in the first second, then up to %d; %d in all; a new claim bound after %s", first, most, total, bound)
	if first > 160 || most > 60 { // the first hundred do not wait
		t.Errorf("%d writes in the first second, then up to %d in one", first, most)
	}
	if bound > 100*time.Millisecond {
		t.Errorf("a new claim waited %s", bound)
	}
	without, _, all, _ := play(t, nil)
	t.Logf("without: %d writes in the first second", without)
	if without < 2*oldPairs || all != total {
		t.Errorf("without a backlog %d writes in the first second, %d in all, and %d with one", without, all, total)
	}
}

// bindNew creates a volume and a claim, and returns how long it takes until the claim is bound.
func (w *oldWorld) bindNew(t *testing.T) time.Duration {
	t.Helper()
	pv, claim := w.pair("new")
	claim.Annotations, claim.Spec.VolumeName = nil, ""
	w.must(t, w.api.Create(w.ctx, pv), w.api.Create(w.ctx, claim))
	began := time.Now()
	for claim.Status.Phase != corev1.ClaimBound && time.Since(began) < time.Minute {
		time.Sleep(time.Millisecond)
		w.must(t, w.api.Get(w.ctx, types.NamespacedName{Namespace: protectedNamespace, Name: "new"}, claim))
	}
	return time.Since(began)
}
