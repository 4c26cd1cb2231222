package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/snapshot"
	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// fault is what happens at one write or call of the snapshotter.
type fault int

const (
	noFault     fault = iota
	crashBefore       // both halves end before the write or call
	crashAfter        // both halves end after it, and its answer is lost
	lostReply         // it has happened, and its answer is an error
)

var errLost = errors.New("the answer is lost")

// crashed is the panic that ends both controllers.
type crashed struct{}

// snapshotWorld is an API server, a driver, and both halves of the snapshotter, which run one after
// the other until nothing changes.
type snapshotWorld struct {
	t      *testing.T
	server *apiserver.Server
	clock  *clocktesting.FakeClock
	mutant snapshotMutant

	at        int // the write or call at which the fault is
	fault     fault
	done      int                          // writes and calls so far
	onFault   func()                       // what the user does at that moment
	onRemove  func()                       // what happens before the user deletes without a fault
	around    func(act func() error) error // what another program does before and after the write or call; nil for nothing
	conflicts int                          // writes that were answered with a conflict
	processes int

	overlays   []*kube.Overlay                    // of the snapshot-controller and of the sidecar
	changed    func(now, gone client.Object)      // what the sidecar's event handlers do
	shown      map[client.ObjectKey]client.Object // contents and VolumeSnapshots as the watches have shown them
	together   *togetherWorld                     // both halves and the protection of claims are one process; nil for no
	controller *reconcile.Loop[keyOfSnapshot, snapshotting.Snapshot, snapshotting.Action]
	sidecar    *reconcile.Loop[string, snapshotting.ContentSnapshot, snapshotting.ContentAction]
	groups     groupHalves

	// The driver's side.
	unready, timeouts int
	snapshots         map[string]string // by name: id
	made              map[string]int    // snapshots that were ever made, by source volume
	created, deleted  int               // calls
	wrong             []string
	events            []string
	silences          *silences
}

type keyOfSnapshot = client.ObjectKey

// snapshotMutant is a rule that is broken on purpose.
type snapshotMutant struct {
	name string
	// write changes a write, or keeps it from happening.
	write func(o client.Object, patch string) bool
	// strip changes an object that is created.
	strip func(o client.Object)
	// fresh makes each process name its snapshots anew.
	fresh bool
	// keeps has the driver not asked to delete.
	keeps bool
	// marksEarly has contents marked before the secret is read.
	marksEarly bool
	// mute emits no event; sayAfter and repeats are the limits of [reconcile.Settings].
	mute     bool
	sayAfter time.Duration
	repeats  int
	// blind has no content listed by its handle.
	blind bool
	// together breaks a rule of one process.
	together togetherMutant
}

func newSnapshotWorld(t *testing.T, mutant snapshotMutant) *snapshotWorld {
	t.Helper()
	w := &snapshotWorld{
		t: t, server: apiserver.New(), clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		mutant: mutant, snapshots: map[string]string{}, made: map[string]int{},
	}
	w.silences = newSilences(w.server, w.clock.Now, func(format string, args ...any) {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	})
	w.restart()
	return w
}

// newTogetherWorld is a world in which both halves and the protection of claims are one process.
func newTogetherWorld(t *testing.T, mutant snapshotMutant) *snapshotWorld {
	t.Helper()
	w := newSnapshotWorld(t, mutant)
	w.together = &togetherWorld{w: w, durable: map[types.UID]intent.Entry{}}
	w.restart()
	return w
}

// restart is a new process of both halves, without memory.
func (w *snapshotWorld) restart() {
	w.processes++
	number := w.processes
	settings := reconcile.Settings{
		SayAfter: w.mutant.sayAfter, Repeats: w.mutant.repeats, Watch: func(run reconcile.Run) {
			w.silences.observe(number, func() bool { return w.processes == number }, run)
		},
		Workers: 1, Backoff: reconcile.Backoff{First: time.Second, Most: time.Minute}, Clock: w.clock, Events: snapshotEvents{w},
		Decided: telemetry.NewCounter(prometheus.NewRegistry(), telemetry.MetricDecisions),
	}
	api := snapshotAPI{w.server.Client(), w}
	w.overlays = nil
	cached := w.overlay(api)
	w.together.begin(w.t.Context(), cached)
	controller := snapshot.NewController(snapshot.ControllerConfig{
		Settings: settings, Mode: snapshotting.Settings{SourceMode: true, Together: w.together.driver()}, Cached: cached, Live: api,
		Writer: cached.Recording(api), Together: w.together.memory(),
	})
	if w.together == nil {
		cached = w.overlay(api)
	}
	prefix := "snapshot"
	if w.mutant.fresh {
		prefix = fmt.Sprintf("snapshot%d", w.processes)
	}
	sidecar := snapshot.NewSidecar(snapshot.SidecarConfig{
		Settings: settings, Cached: cached, Live: api, Writer: cached.Recording(api), CSI: snapshotDriver{w: w}, Timeout: time.Minute,
		Journal: w.together.journal(), Together: w.together.memory(),
		ContentSettings: snapshotting.ContentSettings{Driver: "d", Naming: snapshotting.Naming{Prefix: prefix, Length: -1}},
		Caller: csirpc.NewCaller(csirpc.CallerConfig{
			Locks: &csirpc.VolumeLocks{}, ReadSecret: w.readSecret(api),
			InFlight: telemetry.NewGauge(prometheus.NewRegistry(), telemetry.MetricInFlight),
		}),
	})
	w.controller, w.sidecar = controller.Loop(), sidecar.Loop()
	groups := w.restartGroups(controller, sidecar.SidecarConfig)
	seen := map[types.UID]client.Object{} // by this process
	w.changed = func(now, gone client.Object) {
		changedContent(sidecar, seen, now, gone)
		changedContent(groups, seen, now, gone)
	}
}

// overlay is a cache of one half, which shows all kinds.
func (w *snapshotWorld) overlay(api client.Client) *kube.Overlay {
	overlay := kube.NewOverlay(api, w.clock)
	overlay.Fed(&snapshotv1.VolumeSnapshot{}, &snapshotv1.VolumeSnapshotContent{}, &corev1.PersistentVolumeClaim{},
		&groupv1.VolumeGroupSnapshot{}, &groupv1.VolumeGroupSnapshotContent{})
	w.overlays = append(w.overlays, overlay)
	return overlay
}

// changedContent has the sidecar see an object, or that it is gone, if it is a content of the sidecar's kind.
func changedContent[C interface {
	snapshotting.Contents
	client.Object
}, L interface {
	snapshotting.Classes
	client.Object
}](sidecar *snapshot.ContentController[C, L], seen map[types.UID]client.Object, now, gone client.Object) {
	if content, is := gone.(C); is {
		sidecar.Changed(reconcile.Change[C]{Old: content})
		delete(seen, content.GetUID())
	}
	if content, is := now.(C); is {
		before, _ := seen[content.GetUID()].(C)
		sidecar.Changed(reconcile.Change[C]{Old: before, New: content})
		seen[content.GetUID()] = content
	}
}

// show brings the watches up to date.
func (w *snapshotWorld) show() {
	now := map[client.ObjectKey]client.Object{}
	for _, o := range objectsOf(w, &snapshotv1.VolumeSnapshot{}) {
		now[client.ObjectKeyFromObject(o)] = o
	}
	for _, o := range objectsOf(w, &snapshotv1.VolumeSnapshotContent{}) {
		now[client.ObjectKeyFromObject(o)] = o
	}
	for _, o := range objectsOf(w, &corev1.PersistentVolumeClaim{}) {
		now[client.ObjectKeyFromObject(o)] = o
	}
	for _, o := range w.groupObjects() {
		now[client.ObjectKeyFromObject(o)] = o
	}
	for key, o := range w.shown {
		if _, exists := now[key]; !exists {
			for _, overlay := range w.overlays {
				overlay.Gone(o)
			}
			w.changed(nil, o)
		}
	}
	for _, o := range now {
		for _, overlay := range w.overlays {
			overlay.Saw(o)
		}
		w.changed(o, nil)
	}
	w.shown = now
}

// step counts a write or call, which act makes, and brings the fault about.
func (w *snapshotWorld) step(act func() error) error {
	w.done++
	hit := w.fault != noFault && w.done == w.at
	if hit && w.onFault != nil {
		defer w.onFault()
	}
	if hit && w.fault == crashBefore {
		panic(crashed{})
	}
	if w.around != nil && w.done == w.at {
		before := act
		act = func() error { return w.around(before) }
	}
	err := act()
	if apierrors.IsConflict(err) {
		w.conflicts++
	}
	switch {
	case hit && w.fault == crashAfter:
		panic(crashed{})
	case hit && w.fault == lostReply && err == nil:
		return errLost
	}
	return err
}

// settle runs both halves until nothing has changed for some rounds, and restarts them when they
// crash. It reports whether that came to pass.
func (w *snapshotWorld) settle() bool {
	quiet, before := 0, ""
	for range 120 {
		w.round()
		w.show()
		w.clock.Step(20 * time.Second)
		if now := w.versions(); now == before {
			quiet++
		} else {
			quiet, before = 0, now
		}
		if quiet > 6 {
			return true
		}
	}
	return false
}

// round works on each object once.
func (w *snapshotWorld) round() {
	defer func() {
		switch ended := recover().(type) {
		case nil:
		case crashed:
			w.restart()
		default:
			panic(ended)
		}
	}()
	w.together.letClaimsGo()
	keys := map[keyOfSnapshot]bool{{Namespace: "n", Name: "first"}: true, {Namespace: "n", Name: "second"}: true}
	for _, vs := range objectsOf(w, &snapshotv1.VolumeSnapshot{}) { // members of groups among them
		keys[client.ObjectKeyFromObject(vs)] = true
	}
	w.roundOfGroups()
	var contents []string
	for _, content := range apiserver.Objects(w.server, &snapshotv1.VolumeSnapshotContent{}) {
		contents = append(contents, content.Name)
	}
	for key := range keys {
		_, _ = w.controller.Reconcile(w.t.Context(), key)
	}
	for _, name := range contents {
		_, _ = w.sidecar.Reconcile(w.t.Context(), name)
	}
	w.together.writeResolved()
}

// versions tells two states of the world apart.
func (w *snapshotWorld) versions() string {
	text := fmt.Sprint(len(w.snapshots), w.processes)
	if w.together != nil { // a driver that is still processing is asked without a write
		text += fmt.Sprint(" ", w.created)
	}
	for _, o := range apiserver.Objects(w.server, &snapshotv1.VolumeSnapshot{}) {
		text += " " + o.ResourceVersion
	}
	for _, o := range apiserver.Objects(w.server, &snapshotv1.VolumeSnapshotContent{}) {
		text += " " + o.ResourceVersion
	}
	for _, o := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		text += " " + o.ResourceVersion
	}
	for _, o := range w.groupObjects() {
		text += " " + o.GetResourceVersion()
	}
	return text
}

// snapshotDriver is the driver. A snapshot is known by its name, as the specification has it.
type snapshotDriver struct {
	csi.ControllerClient
	w *snapshotWorld
}

// CreateSnapshot implements csi.ControllerClient.
func (d snapshotDriver) CreateSnapshot(
	_ context.Context, r *csi.CreateSnapshotRequest, _ ...grpc.CallOption,
) (answer *csi.CreateSnapshotResponse, err error) {
	w := d.w
	err = w.step(func() error {
		w.created++
		w.together.checkSource(r.GetName())
		if _, exists := w.snapshots[r.GetName()]; !exists {
			w.made[r.GetName()]++
			w.snapshots[r.GetName()] = "id-" + r.GetName()
		}
		if w.timeouts > 0 {
			w.timeouts--
			return status.Error(codes.DeadlineExceeded, "still at it")
		}
		w.unready--
		answer = &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
			SnapshotId: w.snapshots[r.GetName()], SourceVolumeId: r.GetSourceVolumeId(), SizeBytes: 1, ReadyToUse: w.unready < 0,
		}}
		return nil
	})
	if errors.Is(err, errLost) {
		err = status.Error(codes.Unavailable, "the connection broke")
	}
	return answer, err
}

// DeleteSnapshot implements csi.ControllerClient. A snapshot whose VolumeSnapshot is not being
// deleted is lost.
func (d snapshotDriver) DeleteSnapshot(
	_ context.Context, r *csi.DeleteSnapshotRequest, _ ...grpc.CallOption,
) (*csi.DeleteSnapshotResponse, error) {
	w := d.w
	if w.mutant.keeps {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	err := w.step(func() error {
		w.deleted++
		for name, id := range w.snapshots {
			if id == r.GetSnapshotId() {
				w.checkDeletion(name)
				delete(w.snapshots, name)
			}
		}
		return nil
	})
	if errors.Is(err, errLost) {
		err = status.Error(codes.Unavailable, "the connection broke")
	}
	return &csi.DeleteSnapshotResponse{}, err
}

func (w *snapshotWorld) checkDeletion(name string) {
	for _, vs := range apiserver.Objects(w.server, &snapshotv1.VolumeSnapshot{}) {
		if name == "snapshot-"+string(vs.UID) && vs.DeletionTimestamp == nil {
			w.wrong = append(w.wrong, "the snapshot of "+vs.Name+" was deleted, and its VolumeSnapshot is not being deleted")
		}
	}
}

func objectsOf[T client.Object](w *snapshotWorld, kind T) []T {
	return apiserver.Objects(w.server, kind)
}

func (w *snapshotWorld) create(o client.Object) {
	w.t.Helper()
	if err := w.server.Client().Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// createObjects creates the class, and a claim that is bound to a volume.
func (w *snapshotWorld) createObjects(work snapshotWork) {
	class := &snapshotv1.VolumeSnapshotClass{Driver: "d", DeletionPolicy: work.policy, Parameters: work.parameters}
	class.Name = "c"
	w.create(class)
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	claim.Namespace, claim.Name = "n", "claim"
	claim.Finalizers = []string{names.FinalizerPVCProtection}
	w.create(claim)
	claim.Status.Phase = corev1.ClaimBound
	if err := w.server.Client().Status().Update(w.t.Context(), claim); err != nil {
		w.t.Fatal(err)
	}
	pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "n", Name: "claim", UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "v"},
		},
	}}
	pv.Name = "pv"
	w.create(pv)
}
