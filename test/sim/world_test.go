package sim

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/csidriver"
	"github.com/purser-csi/purser/test/sim/stockmodel"
)

// world is one run: an API server, a driver, the models of other controllers, a user, and the
// processes under test one after the other. A fact that an invariant needs to know of a run belongs
// to the part that it is about.
type world struct {
	schedule schedule
	mutant   mutant
	work     workload
	server   *apiserver.Server
	driver   *csidriver.Driver
	ctx      context.Context

	trace
	operations    operations
	processes     processList
	interventions interventions
	rates         rates // of what is done
	clock         *jumpingClock
	scripted      int         // operations until the end of the script
	ending        atomic.Bool // the user has deleted everything at the end
	silences      *silences
	models
}

// models are parts of the cluster that only some workloads have; nil where a workload has none.
type models struct {
	expanding *expanding // the sizes of volumes
	modifying *modifying // the classes of volumes
	attaching *attaching // nodes and what is published to them
}

// healsAfter is how long a broken watch stays broken when nothing else ends it.
const healsAfter = 40 * time.Second

// blindFor is how long a broken watch stays broken at the end: longer than a new process waits for
// the calls of the previous leader, after which it repeats or undoes them.
const blindFor = callTimeout + 8*time.Second

func newWorld(ctx context.Context, work workload, s schedule, m mutant) *world {
	if work.processSet == nil {
		work.processSet = besideStock
	}
	w := &world{
		schedule: s, mutant: m, work: work, server: apiserver.New(), driver: csidriver.New(), ctx: ctx,
		trace: trace{began: time.Now()}, operations: newOperations(), interventions: newInterventions(),
		rates: newRates(), clock: &jumpingClock{began: time.Now(), wall: m.wall},
	}
	w.silences = newSilences(w.server, time.Now, w.violate)
	w.driver.Locks, w.driver.Vague = s.driverLocks, s.driverVague
	w.driver.Shares, w.driver.Named, w.driver.SourceGoes = work.shares, work.named, work.sourceGoes
	w.driver.FirstUnanswered = work.named || work.sourceGoes
	w.driver.Deleting, w.driver.Calling = w.deleting, func(call string) { w.doing("call " + call) }
	return w
}

// play runs the workload with the faults of the schedule until nothing happens any more, and checks
// the invariants.
func (w *world) play() {
	work := w.work
	work.processSet.startOthers(w)
	u := &user{world: w, api: w.server.Client()}
	work.setup(u)
	if w.schedule.breaksAt == 0 {
		w.healLater()
	}
	for _, r := range work.processSet.ours {
		w.start(r)
	}
	time.Sleep(time.Second)
	work.script(u)
	w.scripted = w.operations.count()
	time.Sleep(blindFor)
	w.processes.heal()
	w.settle()
	if missing := w.schedule.missing; missing != noThing {
		w.checkWhileMissing()
		w.restore(missing)
		w.settle()
	}
	before := w.operations.numberOfWrites()
	time.Sleep(quiet)
	w.check(before)
	if budgeted := w.operations.budgeted; w.schedule.faultless() && work.writes > 0 && work.writes != budgeted {
		w.violate("I6: %d writes, and not %d", budgeted, work.writes)
	}
}

// settle waits until no process should have work left, also one that has just started or just got
// an answer.
func (w *world) settle() {
	settles := w.settles()
	until := time.Now().Add(settles)
	for time.Now().Before(until) {
		time.Sleep(time.Until(until))
		until = w.processes.lastStart()
		if ends := w.operations.began(w.schedule.outage.at).Add(w.schedule.outage.lasts); ends.After(until) {
			until = ends
		}
		if until = until.Add(settles); w.schedule.outage.at > 0 && w.schedule.csiAt > 0 { // one after the other
			until = until.Add(settles)
		}
	}
}

// settles is longer than the longest backoff and the wait for a previous holder together. A request
// that no claim wants and that the driver refuses, since its source is gone, is repeated longer.
func (w *world) settles() time.Duration {
	const settles = 80 * time.Second
	if w.work.sourceGoes {
		return settles + provision.MaxFinalErrors*backoff.Most
	}
	return settles
}

// end lets every goroutine of the run come to its end.
func (w *world) end() {
	w.processes.abort()
	time.Sleep(2 * time.Minute)
}

// quiet is how long nothing may be written afterwards.
const quiet = 45 * time.Second

func (w *world) healLater() {
	go func() {
		time.Sleep(healsAfter)
		w.processes.heal()
	}()
}

// runaway is more operations than any run needs; a controller that writes for ever is stopped
// there.
const runaway = 1000

// begin counts a write or a call, and returns its number; one that no schedule has when the user deletes
// everything at the end of the run, where nothing else goes wrong.
func (w *world) begin(o op) int {
	n := w.operations.add(o)
	if n == runaway {
		w.violate("I5: %d operations and no end", n)
		w.processes.abort()
	}
	if w.ending.Load() {
		return -1
	}
	return n
}

// happened does what the schedule has for the moment right after an operation of a process.
func (w *world) happened(by *process, n int) {
	if w.schedule.deleteAt == n {
		w.deleteClaims()
	}
	if w.schedule.breaksAt == n && n > 0 {
		w.processes.breakViews()
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
	if w.schedule.jumpAt == n && n > 0 {
		w.log("the clock is set forward by %s", w.schedule.jumpBy)
		w.clock.jump(w.schedule.jumpBy)
	}
	if w.schedule.missingAt == n && n > 0 {
		w.remove(w.schedule.missing)
	}
	if w.schedule.endAt == n {
		go by.endInOrder()
	}
}

// deleting checks each volume that the driver is about to delete (I3).
func (w *world) deleting(id string) {
	if w.interventions.includes(w.interventions.retained, id) {
		w.violate("I3: volume %s is deleted, which an administrator kept while there was no process", id)
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
