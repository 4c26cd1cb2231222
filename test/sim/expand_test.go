package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/resize"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// growing is the role of the expand controller, which names the resizer of migrated volumes.
const growing role = "volume-expand"

// migratedDriver has the volumes of the in-tree plugin kubernetes.io/aws-ebs.
const migratedDriver = "ebs.csi.aws.com"

var namingResizers = &processSet{
	ours: []role{growing}, startOthers: startMigratedResizer, check: end.ofExpander, disturb: askForMore,
	kinds: []client.Object{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}},
}

// runExpander builds the controller as internal/roles does.
func (p *process) runExpander() {
	m := p.world.mutant
	api, cached := client.Client(gatedClient{Client: p.world.server.Client(), process: p}), client.Reader(p.view)
	if m.client != nil {
		api = m.client(api, p.view)
	}
	if m.cached != nil {
		cached = m.cached(cached)
	}
	overlay := kube.NewOverlay(cached, p.world.clock)
	mgr := m.manager(p.view, api)
	if err := resize.NewExpansion(resize.ExpansionConfig{Settings: p.settings(2), Cached: overlay, Writer: overlay.Recording(api)}).AddTo(p.ctx, mgr); err != nil {
		panic(err)
	}
	go func() { _ = p.view.Start(p.ctx) }()
	p.begin(mgr)
}

// startMigratedResizer runs a model of the resizer of the migrated driver: it expands claims that name it.
func startMigratedResizer(w *world) {
	go func() {
		for w.ctx.Err() == nil {
			time.Sleep(61 * time.Millisecond)
			for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
				if claim.Annotations[names.AnnStorageResizer] == migratedDriver && !satisfied(claim) && claim.DeletionTimestamp == nil {
					claim.Status.Capacity = claim.Spec.Resources.Requests.DeepCopy()
					if w.server.Client().Status().Update(w.ctx, claim) == nil {
						w.log("the resizer expands claim %s", claim.Name)
					}
				}
			}
		}
	}()
}

// migrated creates a bound claim of 1Gi.
func (u *user) migrated(name string) (volume func()) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name, Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")}},
	}
	_ = u.api.Create(u.world.ctx, claim)
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, storage("1Gi")
	_ = u.api.Status().Update(u.world.ctx, claim)
	return func() {
		_ = u.api.Create(u.world.ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: storage("1Gi"), ClaimRef: &corev1.ObjectReference{Namespace: claimNamespace, Name: name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: name}},
		}})
	}
}

var expandWorkloads = []workload{
	{name: "a migrated claim grows", small: true, writes: 1, processSet: namingResizers, setup: func(u *user) { u.migrated("x")() }, script: func(u *user) {
		u.ask("x", "2Gi")
		u.untilSize("x")
	}},
	{name: "a migrated claim grows twice", small: true, writes: 1, processSet: namingResizers, setup: func(u *user) { u.migrated("x")() }, script: func(u *user) {
		u.ask("x", "2Gi")
		u.untilSize("x")
		u.ask("x", "3Gi")
		u.untilSize("x")
	}},
	{name: "a migrated claim grows before its volume comes", few: true, repeated: true, processSet: namingResizers, setup: nothingYet, script: func(u *user) {
		volume := u.migrated("x")
		u.ask("x", "2Gi")
		u.pause(2 * time.Minute)
		volume()
		u.untilSize("x")
	}},
}

// ofExpander is that each claim gets what it asks for.
func (e end) ofExpander() {
	for _, claim := range e.claims {
		if claim.DeletionTimestamp == nil && !satisfied(claim) {
			e.violate("EX1: claim %s asks for %s and has %s", claim.Name, claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage())
		}
	}
}

var expandMutants = []mutant{
	{name: "names no resizer", client: writes{skip: statusOf[*corev1.PersistentVolumeClaim]}.client},
	{name: "gets no event of claims", handlers: deaf[*corev1.PersistentVolumeClaim]},
	{name: "emits no event", mute: true},
}

var expandFamilies = []family{
	{"crash", soonBack, false},
	{"crash, and a write arrives later", arrivals, false},
	{"crash, and more is asked for while we are down", crashesWithDeletion, false},
	{"more is asked for", deletions, false},
	{"ended in order", ends, false},
	{"lost answer", lostAnswers, false},
	{"slow write", slowWritesOfKept, false},
	{"watch", bindingWatchFaults, true},
	{"two leaders", rivals, true},
	{"outage", outages, true},
	{"the clock is set forward", clockJumps, false},
	{"anything together", randomSchedules, false},
}

var expandPart = sweepPart{
	"expansion", expandWorkloads, expandFamilies, expandMutants,
	extent{every: 1, pairs: 40, wide: 1, chances: 30},
	extent{every: 5, wide: 20, chances: 3},
}

// TestExpandFaultFree is every workload without faults.
func TestExpandFaultFree(t *testing.T) { expandPart.faultFree(t) }

// TestExpandSweep runs everything that can go wrong against every workload of migrated volumes.
func TestExpandSweep(t *testing.T) { expandPart.sweepAll(t) }

// TestExpandMutants breaks the expand controller in one way after the other; the sweep must notice each.
func TestExpandMutants(t *testing.T) { expandPart.killAllMutants(t) }
