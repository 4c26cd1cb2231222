package sim

import (
	"time"

	"github.com/purser-csi/purser/test/sim/view"
)

// bindingFamilies are the faults of the binder and the protection controllers. They call no driver,
// so a new process starts soon. Writes of the previous process that arrive late matter more, since
// only their preconditions stop them.
var bindingFamilies = []family{
	{"crash", soonBack, false},
	{"crash, and a write arrives later", arrivals, false},
	{"crash, and the claims are deleted while we are down", crashesWithDeletion, false},
	{"ended in order", ends, false},
	{"claims deleted", deletions, false},
	{"volumes deleted", droppedVolumes, false},
	{"class deleted", lostClasses, false},
	{"lost answer", lostAnswers, false},
	{"slow write", slowWrites, false},
	{"watch", bindingWatchFaults, true},
	{"two leaders", rivals, true},
	{"two leaders, and the previous one sees nothing", staleRivals, true},
	{"two leaders, and a write of the previous one arrives later", slowRivals, true},
	{"outage", outages, true},
	{"the clock is set forward", clockJumps, false},
	{"everything deleted while something is missing", missingThings, false},
	{"two crashes", pairs, false},
	{"anything together", randomSchedules, false},
}

func soonBack(calm result, x extent) (all []schedule) {
	for _, s := range crashes(calm, x) {
		if s.downFor == briefly || len(calm.calls) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// whiles are delays of a write: until the next process starts, is in the middle of its work, or is
// done.
var whiles = []time.Duration{briefly / 2, briefly + time.Millisecond, briefly + 3500*time.Microsecond, 5 * time.Second}

func arrivals(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		for _, while := range whiles {
			s := schedule{crashes: []crash{{n, under}}, downFor: briefly, slowFor: while}
			deleted := s
			deleted.deleteWhileDown = true
			all = append(all, s, deleted)
		}
	}
	return all
}

func droppedVolumes(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		all = append(all, schedule{dropVolumesAt: n}, schedule{dropVolumesAt: n, deleteAt: n})
		for _, where := range []position{before, lost} {
			all = append(all, schedule{dropVolumesAt: n, crashes: []crash{{n + 1, where}}, downFor: briefly})
		}
	}
	return all
}

// slowWrites delay a write until users have changed the objects.
func slowWrites(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		for _, while := range []time.Duration{2 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second} {
			s := schedule{slowAt: n, slowFor: while}
			deleted, dropped := s, s
			deleted.deleteAt = n - 1
			dropped.dropVolumesAt = n - 1
			all = append(all, s)
			if n > 1 {
				all = append(all, deleted, dropped)
			}
		}
	}
	return all
}

// bindingWatchFaults are each watch alone, in each way in turn, and all of them in every way.
func bindingWatchFaults(calm result, _ extent) (all []schedule) {
	for n := 0; n <= calm.ops; n++ {
		for i, kind := range calm.work.kinds() {
			f := []view.Fault{{Frozen: true}, {Lag: 1}, {Frozen: true, Relist: true}, {Lag: 3}}[(n+i)%4]
			f.Kind = kind
			all = append(all, blinder(schedule{views: []view.Fault{f}, breaksAt: n}, n)...)
		}
		for _, f := range []view.Fault{{Frozen: true}, {Lag: 2}, {Late: 2, Frozen: true, Relist: true}} {
			all = append(all, blinder(schedule{views: calm.work.allWith(f), breaksAt: n}, n)...)
		}
	}
	return all
}

// blinder is blinded, for a moment that may be the beginning, and with the volumes deleted.
func blinder(s schedule, n int) []schedule {
	if n == 0 {
		return []schedule{s}
	}
	dropped := s
	dropped.dropVolumesAt = n
	return append(blinded(s, n), s, dropped)
}

// allWith is a fault of every watch.
func (w workload) allWith(f view.Fault) (views []view.Fault) {
	for _, kind := range w.kinds() {
		f.Kind = kind
		views = append(views, f)
	}
	return views
}

// staleRivals have a previous leader with a frozen cache that goes on.
func staleRivals(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		views := [][]view.Fault{calm.work.allWith(view.Fault{Frozen: true}), calm.work.allWith(view.Fault{Lag: 2})}
		for _, kind := range calm.work.kinds() {
			views = append(views, []view.Fault{{Kind: kind, Frozen: true}})
		}
		for _, v := range views {
			s := schedule{rivalAt: n, views: v, breaksAt: n}
			all = append(all, s)
			for _, at := range []int{n, n + 1, n + 3} {
				deleted := s
				deleted.deleteAt = at
				all = append(all, deleted)
			}
		}
	}
	return all
}

func slowRivals(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		for m := n + 1; m <= n+3; m++ {
			for _, while := range []time.Duration{4 * time.Millisecond, 2 * time.Second} {
				s := schedule{rivalAt: n, slowAt: m, slowFor: while}
				deleted, blind := s, s
				deleted.deleteAt = m + 1
				blind.views, blind.breaksAt = calm.work.allWith(view.Fault{Frozen: true}), n
				all = append(all, s, deleted, blind)
			}
		}
	}
	return all
}
