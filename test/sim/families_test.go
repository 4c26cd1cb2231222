package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/test/sim/csidriver"
	"github.com/purser-csi/purser/test/sim/view"
)

// family is a kind of fault: it makes the schedules for a workload from its run without faults.
type family struct {
	name string
	plan func(calm result, x extent) []schedule
	wide bool // two things come together
}

var families = []family{
	{"crash", crashes, false},
	{"crash, and the claims are deleted while we are down", crashesWithDeletion, false},
	{"claims deleted after a takeover", deletionsAfterTakeover, false},
	{"ended in order", ends, false},
	{"claims deleted", deletions, false},
	{"classes led to another driver", driverChanges, false},
	{"class created again", recreations, false},
	{"class deleted", lostClasses, false},
	{"volumes replaced under their names", replacements, false},
	{"lost answer", lostAnswers, false},
	{"driver", driverFaults, false},
	{"driver, and a watch stands still", driverFaultsUnseen, true},
	{"refused after a call with an unknown outcome", refusals, true},
	{"refused for what another request asks", vagueRefusals, true},
	{"watch", watchFaults, true},
	{"two leaders", rivals, false},
	{"crash, and a write arrives later", arrivals, false},
	{"slow write", slowWritesOfKept, false},
	{"two leaders, and the previous one sees nothing", staleRivals, true},
	{"two leaders, and a write of the previous one arrives later", slowRivals, true},
	{"a former leader repeats", repeats, true},
	{"journal deleted", lostJournals, true},
	{"outage", outages, true},
	{"the clock is set forward", clockJumps, false},
	{"everything deleted while something is missing", missingThings, false},
	{"no process for days", absences, false},
	{"two crashes", pairs, false},
	{"anything together", randomSchedules, false},
}

const (
	briefly = 1300 * time.Millisecond
	longer  = 25 * time.Second // than any call can take
)

func crashes(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		for _, where := range positions(calm, n) {
			for _, down := range []time.Duration{briefly, longer} {
				all = append(all, schedule{crashes: []crash{{n, where}}, downFor: down})
			}
		}
	}
	return all
}

func positions(calm result, n int) []position {
	all := []position{before, lost, after}
	if slices.Contains(calm.calls, n) {
		return append(all, inFlight)
	}
	return all
}

// crashesWithDeletion is the window in which upstream loses volumes (H-1).
func crashesWithDeletion(calm result, x extent) (all []schedule) {
	for _, s := range crashes(calm, x) {
		s.deleteWhileDown = true
		all = append(all, s)
	}
	return all
}

// deletionsAfterTakeover kill the process while the driver works on its call. The next one repeats
// the request at once, and the claims are deleted when they have their volumes, before the first
// call must have ended (H-1). A second crash has a third process take over meanwhile.
func deletionsAfterTakeover(calm result, _ extent) (all []schedule) {
	for _, call := range calm.calls {
		for later := call + 1; later <= call+12; later++ {
			s := schedule{crashes: []crash{{call, inFlight}}, downFor: briefly, deleteAt: later}
			again := s
			again.crashes = append(again.crashes, crash{later + 1, lost})
			all = append(all, s, again)
		}
	}
	return all
}

// ends are upgrades: the process ends what it has begun, and the next one need not wait. Where that
// process is itself the successor of one that was killed, amid a call that goes on, the one after
// it must.
func ends(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		s := schedule{endAt: n, downFor: briefly}
		deleted, meanwhile := s, s
		deleted.deleteAt, meanwhile.deleteWhileDown = n, true
		all = append(all, s, deleted, meanwhile)
	}
	for _, call := range calm.calls {
		for after := call + 1; after <= call+4; after++ {
			s := schedule{crashes: []crash{{call, inFlight}}, endAt: after, downFor: briefly}
			deleted := s
			deleted.deleteWhileDown = true
			all = append(all, s, deleted)
		}
	}
	return all
}

func deletions(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		all = append(all, schedule{deleteAt: n})
		for _, where := range []position{before, lost} { // of what comes next, while the deletion is fresh
			all = append(all, schedule{deleteAt: n, crashes: []crash{{n + 1, where}}, downFor: briefly})
		}
	}
	return all
}

func recreations(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		all = append(all, schedule{recreateClassAt: n})
		for _, where := range []position{before, lost, after} {
			all = append(all, schedule{recreateClassAt: n, crashes: []crash{{n, where}}, downFor: briefly})
			all = append(all, schedule{recreateClassAt: n, crashes: []crash{{n, where}}, downFor: briefly, deleteWhileDown: true})
		}
	}
	return all
}

// driverChanges moves the class of claims to another driver, while a call to our driver is uncertain
// or in flight (H-1).
func driverChanges(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		all = append(all, schedule{handClassAt: n}, schedule{handClassAt: n, loseAnswer: n + 1})
		for _, where := range []position{before, lost, after} {
			s := schedule{handClassAt: n, crashes: []crash{{n, where}}, downFor: briefly}
			deleted := s
			deleted.deleteWhileDown = true
			all = append(all, s, deleted)
		}
	}
	for _, call := range calm.calls {
		for _, code := range []codes.Code{codes.Unavailable, codes.Internal} {
			for _, effect := range []csidriver.Effect{csidriver.None, csidriver.Done, csidriver.Late} {
				for _, later := range []int{0, 1, 2} {
					s := schedule{handClassAt: call + later, csiAt: call, csi: csidriver.Fault{Code: code, Effect: effect}}
					deleted := s
					deleted.deleteAt = call + later + 1
					all = append(all, s, deleted)
				}
			}
		}
	}
	return all
}

// lostClasses delete the class: a check that fails now must not drop the entry of an earlier
// request (H-47).
func lostClasses(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		all = append(all, schedule{dropClassAt: n}, schedule{dropClassAt: n, deleteAt: n})
		for _, where := range []position{before, lost} {
			s := schedule{dropClassAt: n, crashes: []crash{{n, where}, {n + 2, lost}}, downFor: briefly}
			deleted := s
			deleted.deleteWhileDown = true
			all = append(all, s, deleted)
		}
	}
	for _, call := range calm.calls {
		for _, effect := range []csidriver.Effect{csidriver.None, csidriver.Done} {
			s := schedule{dropClassAt: call, csiAt: call, csi: csidriver.Fault{Code: codes.Unavailable, Effect: effect}}
			deleted := s
			deleted.deleteAt = call + 1
			all = append(all, s, deleted)
		}
	}
	return all
}

func replacements(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		all = append(all, schedule{replaceAt: n})
		for _, where := range []position{before, lost, after} {
			all = append(all, schedule{replaceAt: n, crashes: []crash{{n, where}}, downFor: briefly})
		}
	}
	return all
}

func lostAnswers(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		all = append(all, schedule{loseAnswer: n}, schedule{loseAnswer: n, deleteAt: n})
		for _, kind := range calm.work.kinds() { // what loses an answer breaks watches, and they come back one after the other
			s := schedule{loseAnswer: n, views: []view.Fault{{Kind: kind, Frozen: true}}, breaksAt: n}
			deleted, classless := s, s
			deleted.deleteAt, classless.dropClassAt = n, n
			all = append(all, s, deleted, classless)
		}
	}
	return all
}

// slowWritesOfKept are slow writes while no volume is deleted: the stock controllers give a
// claim no volume that is being deleted, and as long as the claim lives it stays.
func slowWritesOfKept(calm result, x extent) []schedule {
	return slices.DeleteFunc(slowWrites(calm, x), func(s schedule) bool { return s.dropVolumesAt > 0 })
}

func watchFaults(calm result, _ extent) (all []schedule) {
	for n := 0; n <= calm.ops; n++ {
		for _, kind := range calm.work.kinds() {
			for _, f := range []view.Fault{
				{Frozen: true}, {Frozen: true, Relist: true}, {Lag: 1}, {Lag: 3}, {Late: 2, Frozen: true, Relist: true},
			} {
				f.Kind = kind
				s := schedule{views: []view.Fault{f}, breaksAt: n}
				all = append(all, s)
				if n == 0 {
					continue
				}
				all = append(all, blinded(s, n)...)
			}
		}
		for _, f := range []view.Fault{{Late: 1, Frozen: true}, {Late: 2, Frozen: true, Relist: true}, {Late: 4, Frozen: true}} {
			var views []view.Fault
			for _, kind := range calm.work.kinds() {
				f.Kind = kind
				views = append(views, f)
			}
			if n > 0 {
				all = append(all, blinded(schedule{views: views, breaksAt: n}, n)...)
			}
		}
	}
	return all
}

// blinded adds faults of the watches.
func blinded(s schedule, n int) []schedule {
	deleted, crashed := s, s
	deleted.deleteAt = n
	crashed.crashes, crashed.downFor = []crash{{n, lost}}, briefly
	both := crashed
	both.deleteWhileDown = true
	return []schedule{deleted, crashed, both}
}

func rivals(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		all = append(all, schedule{rivalAt: n}, schedule{rivalAt: n, deleteAt: n})
		for m := n + 1; m <= n+6; m++ { // one of the two dies
			all = append(all, schedule{rivalAt: n, crashes: []crash{{m, lost}}, downFor: briefly}, schedule{rivalAt: n, deleteAt: m, crashes: []crash{{m, before}}, downFor: briefly})
		}
		for _, call := range calm.calls {
			if call >= n { // its effect comes when the other one leads
				f := csidriver.Fault{Code: codes.Unavailable, Effect: csidriver.Late, After: lateEffect}
				all = append(all, schedule{rivalAt: n, csiAt: call, csi: f, driverLocks: true}, schedule{rivalAt: n, deleteAt: call, csiAt: call, csi: f, driverLocks: true})
			}
		}
	}
	return all
}

// repeats: 1. a process is killed during a call. 2. the next leader is about to repeat the call,
// and is slow. 3. another leader takes over. 4. the slow one sends its call, and dies with the
// answer.
func repeats(calm result, _ extent) (all []schedule) {
	for _, call := range calm.calls {
		for rival := call + 1; rival <= call+4; rival++ {
			for late := rival + 1; late <= rival+12; late++ {
				s := schedule{crashes: []crash{{call, inFlight}, {late, lost}}, downFor: briefly, rivalAt: rival, slowAt: late, slowFor: callTimeout / 3}
				deleted := s
				deleted.deleteWhileDown = true
				all = append(all, s, deleted)
			}
		}
		all = append(all, laterRepeats(call)...)
	}
	return all
}

// laterRepeats: 1. a call fails with an unknown outcome, and so do its repetitions. Only the first of
// them is written to the journal. 2. the claim is deleted, and another leader takes over and waits for
// the end of the calls before it. 3. the backoff of the previous leader ends later than that, and it
// repeats the call once more, without a write that could conflict.
func laterRepeats(call int) (all []schedule) {
	for failed := call + 3; failed <= call+6; failed++ {
		for late := failed + 1; late <= failed+6; late++ {
			all = append(all, schedule{
				csiAt: call, csiUntil: failed, csi: csidriver.Fault{Code: codes.Unavailable}, deleteAt: failed,
				rivalAt: failed, crashes: []crash{{late, lost}}, slowAt: late, slowFor: callTimeout / 3,
			})
		}
	}
	return all
}

// pairs are two crashes, the second of which hits what the first left behind. They are sampled when
// there are too many, by a seed that never changes.
func pairs(calm result, x extent) (all []schedule) {
	if !calm.work.small {
		return nil
	}
	for n := 1; n <= calm.ops; n++ {
		for m := n + 1; m <= calm.ops+4; m++ {
			for _, first := range positions(calm, n) {
				for _, second := range []position{before, lost, after} {
					s := schedule{crashes: []crash{{n, first}, {m, second}}, downFor: briefly}
					deleted := s
					deleted.deleteWhileDown = true
					all = append(all, s, deleted)
				}
			}
		}
	}
	sample := rand.New(rand.NewPCG(1, 2))
	sample.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), x.pairs)]
}
