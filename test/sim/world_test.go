package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/csidriver"
	"github.com/purser-csi/purser/test/sim/stockmodel"
)

// world is one run: an API server, a driver, the models of other controllers, a user, and the
// processes under test one after the other.
type world struct {
	schedule   schedule
	mutant     mutant
	processSet *processSet
	contested  bool // users conflict, and the later one is refused
	repeated   bool // the driver refuses, and the call is retried
	nodes      bool // its volumes are each on one node
	shares     bool // it has one volume for all claims
	server     *apiserver.Server
	driver     *csidriver.Driver
	began      time.Time
	ctx        context.Context

	mu         sync.Mutex
	killed     int // crashes that happened
	ops        int // writes and calls that our processes began
	writes     int // those that go to the API server
	processes  []*process
	started    time.Time // the last of them, or the one that is to come
	out        time.Time // when the outage began
	healed     bool
	trace      []string
	violations []string
	callOps    []int
	calls      map[string]int  // of the driver, by method and volume, fault-free or not
	forced     map[string]bool // handles whose PersistentVolume was forced away
	kept       map[string]bool // handles of volumes with data
	restored   []*corev1.PersistentVolume
	turned     bool            // reclaim policies were changed, and with them the protecting controllers
	forcedAway map[string]bool // names of volumes that an administrator took away from their claims
	refusals   []string        // conflicts and similar errors in answers to the processes under test
	inVain     []string        // reads whose result was known
	budgeted   int             // writes, those of the journal left out
	expanding  *expanding      // the sizes of volumes; nil where nothing is expanded
	modifying  *modifying      // the classes of volumes; nil where nothing is expanded
	attaching  *attaching      // nodes and what is published to them; nil where nothing is attached
}

// healsAfter is how long a broken watch stays broken when nothing else ends it.
const healsAfter = 40 * time.Second

// blindFor is how long a broken watch stays broken at the end: longer than a new process waits for
// the calls of the previous leader, after which it repeats or undoes them.
const blindFor = callTimeout + 8*time.Second

func newWorld(ctx context.Context, s schedule, m mutant) *world {
	w := &world{
		schedule: s, mutant: m, server: apiserver.New(), driver: csidriver.New(), began: time.Now(), ctx: ctx, calls: map[string]int{},
		forced: map[string]bool{}, forcedAway: map[string]bool{}, kept: map[string]bool{},
	}
	w.driver.Locks, w.driver.Vague = s.driverLocks, s.driverVague
	w.driver.Deleting = w.deleting
	return w
}

// log adds a line to the trace.
func (w *world) log(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf("%10.4fs ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.log("VIOLATION %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, text)
}

// play runs the workload with the faults of the schedule until nothing happens any more, and checks
// the invariants.
func (w *world) play(work workload) {
	if w.processSet = work.processSet; w.processSet == nil {
		w.processSet = besideStock
	}
	w.contested, w.repeated, w.nodes, w.shares = work.contested, work.repeated, work.nodes, work.shares
	w.driver.Shares, w.driver.Named, w.driver.SourceGoes = work.shares, work.named, work.sourceGoes
	w.driver.FirstUnanswered = work.named || work.sourceGoes
	w.processSet.others(w)
	u := &user{world: w, api: w.server.Client()}
	work.setup(u)
	if w.schedule.breaksAt == 0 {
		w.healLater()
	}
	for _, r := range w.processSet.ours {
		w.start(r)
	}
	time.Sleep(time.Second)
	work.script(u)
	time.Sleep(blindFor)
	w.heal()
	w.settle()
	w.mu.Lock()
	before := w.writes
	w.mu.Unlock()
	time.Sleep(quiet)
	w.check(before)
	if w.schedule.faultless() && work.writes > 0 && work.writes != w.budgeted {
		w.violate("I6: %d writes, and not %d", w.budgeted, work.writes)
	}
}

// settle waits until no process should have work left, also one that has just started or just got
// an answer.
func (w *world) settle() {
	until := time.Now().Add(settles)
	for time.Now().Before(until) {
		time.Sleep(time.Until(until))
		w.mu.Lock()
		until = w.started
		if ends := w.out.Add(w.schedule.outage.lasts); ends.After(until) {
			until = ends
		}
		if until = until.Add(settles); w.schedule.outage.at > 0 && w.schedule.csiAt > 0 { // one after the other
			until = until.Add(settles)
		}
		w.mu.Unlock()
	}
}

// end lets every goroutine of the run come to its end.
func (w *world) end() {
	w.mu.Lock()
	for _, p := range w.processes {
		p.dead.Store(true)
		p.cancel()
	}
	w.mu.Unlock()
	time.Sleep(2 * time.Minute)
}

const (
	// settles is longer than the longest backoff and the wait for a previous holder together.
	settles = 80 * time.Second
	// quiet is how long nothing may be written afterwards.
	quiet = 45 * time.Second
)

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.healed = true
	for _, p := range w.processes {
		p.heal()
	}
}

func (w *world) healLater() {
	go func() {
		time.Sleep(healsAfter)
		w.heal()
	}()
}

// vain records an unnecessary read.
func (w *world) vain(question string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inVain = append(w.inVain, question)
}

// volumeNames are those of the volumes that are there.
func (w *world) volumeNames() (all []string) {
	for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		all = append(all, pv.Name)
	}
	return all
}

// deleteClaims is what the user does at the worst of times.
func (w *world) deleteClaims() {
	if w.processSet.disturb != nil {
		w.processSet.disturb(w)
		return
	}
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		w.log("user deletes claim %s", claim.Name)
		_ = w.server.Client().Delete(w.ctx, claim)
	}
}

// runaway is more operations than any run needs; a controller that writes for ever is stopped
// there.
const runaway = 1000

// begin counts a write or a call, and returns its number.
func (w *world) begin(o op) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ops++; w.ops == runaway {
		w.violations = append(w.violations, fmt.Sprintf("I5: %d operations and no end", w.ops))
		for _, p := range w.processes {
			p.dead.Store(true)
			p.cancel()
		}
	}
	if w.ops == w.schedule.outage.at {
		w.out = time.Now()
	}
	if !o.call {
		w.writes++
		if !o.journal {
			w.budgeted++
		}
	} else {
		w.calls[o.text]++
		w.callOps = append(w.callOps, w.ops)
	}
	return w.ops
}

// happened does what the schedule has for the moment right after an operation of a process.
func (w *world) happened(by *process, n int) {
	if w.schedule.deleteAt == n {
		w.deleteClaims()
	}
	if w.schedule.breaksAt == n && n > 0 {
		w.mu.Lock()
		for _, p := range w.processes {
			p.breakViews()
		}
		w.mu.Unlock()
		w.healLater()
	}
	if w.schedule.dropClassAt == n {
		w.dropClasses()
	}
	if w.schedule.replaceAt == n {
		w.replaceVolumes()
	}
	if w.schedule.recreateClassAt == n {
		w.recreateClasses("")
	}
	if w.schedule.handClassAt == n && n > 0 {
		w.recreateClasses(otherDriver)
		other := &stockmodel.Provisioner{Server: w.server, Client: w.server.Client(), Driver: otherDriver, Deleting: func(*corev1.PersistentVolume) {}}
		go other.Run(w.ctx)
	}
	if w.schedule.dropVolumesAt == n {
		w.dropVolumes()
	}
	if w.schedule.dropJournalAt == n {
		w.dropJournal()
	}
	if w.schedule.rivalAt == n {
		go w.rival(by)
	}
	if w.schedule.endAt == n {
		go by.endInOrder()
	}
}

// replaceVolumes deletes the released volumes by force and creates others under their names, as an
// administrator may.
func (w *world) replaceVolumes() {
	api := w.server.Client()
	for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		if pv.Status.Phase != corev1.VolumeReleased || !ofDriver(pv) {
			continue
		}
		w.log("administrator replaces volume %s", pv.Name)
		w.forced[pv.Spec.CSI.VolumeHandle] = true
		_ = api.Patch(w.ctx, pv.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		_ = api.Delete(w.ctx, pv.DeepCopy())
		restored := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: pv.Name, Finalizers: []string{names.FinalizerVolume}},
			Spec:       *pv.Spec.DeepCopy(),
		}
		restored.Spec.ClaimRef = nil
		restored.Spec.CSI.VolumeHandle = w.driver.Adopt("restored-" + pv.Name)
		_ = api.Create(w.ctx, restored)
		w.restored = append(w.restored, restored)
	}
}

// dropVolumes deletes every volume.
func (w *world) dropVolumes() {
	w.restored = nil // they are deleted too
	for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		w.log("user deletes volume %s", pv.Name)
		_ = w.server.Client().Delete(w.ctx, pv)
	}
}

// dropJournal deletes the journal while a process runs.
func (w *world) dropJournal() {
	pages := apiserver.Objects(w.server, &coordinationv1.Lease{})
	if slices.ContainsFunc(pages, func(page *coordinationv1.Lease) bool { return *page.Spec.HolderIdentity == "" }) {
		return
	}
	for _, page := range pages {
		w.log("administrator deletes lease %s", page.Name)
		_ = w.server.Client().Delete(w.ctx, page)
	}
}

// deleting checks each volume that the driver is about to delete (I3).
func (w *world) deleting(id string) {
	if w.kept[id] {
		w.violate("I3: volume %s is deleted, which a user has kept while there was no process", id)
	}
	for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		if pv.Spec.CSI == nil || pv.Spec.CSI.VolumeHandle != id {
			continue
		}
		w.deletingVolume(pv)
		if w.schedule.blindTo(&storagev1.VolumeAttachment{}) {
			continue // there is no way to ask for the attachments of one volume; the driver must refuse, as upstream has it
		}
		for _, attachment := range apiserver.Objects(w.server, &storagev1.VolumeAttachment{}) {
			if name := attachment.Spec.Source.PersistentVolumeName; name != nil && *name == pv.Name {
				w.violate("I3: volume %s is deleted while it is attached", id)
			}
		}
	}
}

// deletingVolume checks a PersistentVolume whose volume is about to be deleted. One that was
// provisioned for a claim that is bound to another volume by now may be deleted.
func (w *world) deletingVolume(pv *corev1.PersistentVolume) {
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		w.violate("I3: volume %s is deleted, and its policy is %s", pv.Name, pv.Spec.PersistentVolumeReclaimPolicy)
	}
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		if claim.UID == uidOf(pv) && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == pv.Name) {
			w.violate("I3: volume %s is deleted, and claim %s is bound to it", pv.Name, claim.Name)
		}
	}
}
