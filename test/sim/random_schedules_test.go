package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/test/sim/csidriver"
	"github.com/purser-csi/purser/test/sim/view"
)

// randomSchedules combines random faults with random events. Each schedule has its own seed, which
// changes only with SEED.
func randomSchedules(calm result, x extent) (all []schedule) {
	name := fnv.New64()
	name.Write([]byte(calm.work.name))
	for n := range uint64(x.chances) {
		all = append(all, scheduleGenerator{rand.New(rand.NewPCG(name.Sum64(), x.seed+n)), calm}.schedule())
	}
	return all
}

// scheduleGenerator generates random schedules for a workload.
type scheduleGenerator struct {
	*rand.Rand
	calm result
}

// operation returns the number of a random operation: one of the run without faults, or one of the
// additional operations that a fault causes.
func (d scheduleGenerator) operation() int { return 1 + d.IntN(d.calm.ops+6) }

func (d scheduleGenerator) one(in int) bool { return d.IntN(in) == 0 }

func (d scheduleGenerator) schedule() (s schedule) {
	for s.faultless() {
		s = schedule{}
		for _, part := range []func(*schedule){d.crashes, d.userActions, d.network, d.driver, d.watches, d.leaders, d.outage, d.clock} {
			if d.one(2) {
				part(&s)
			}
		}
	}
	return s
}

func (d scheduleGenerator) crashes(s *schedule) {
	s.downFor = []time.Duration{briefly, longer}[d.IntN(2)]
	s.deleteWhileDown = d.one(2)
	for range 1 + d.IntN(3) {
		s.crashes = append(s.crashes, d.crash())
	}
	s.slowFor = whiles[d.IntN(len(whiles))]
}

func (d scheduleGenerator) crash() crash {
	if len(d.calm.calls) > 0 && d.one(3) {
		return crash{d.call(), inFlight}
	}
	return crash{d.operation(), []position{before, lost, under, after}[d.IntN(4)]}
}

func (d scheduleGenerator) call() int { return d.calm.calls[d.IntN(len(d.calm.calls))] }

func (d scheduleGenerator) userActions(s *schedule) {
	moments := []*int{&s.deleteAt, &s.recreateClassAt, &s.dropClassAt, &s.replaceAt}
	if d.calm.work.processSet != nil { // a restored volume is there for any claim; and volumes are deleted before they are released
		moments[3] = &s.dropVolumesAt
	} else if d.one(8) {
		s.handClassAt = d.operation()
	}
	for _, at := range moments {
		if d.one(3) {
			*at = d.operation()
		}
	}
}

func (d scheduleGenerator) network(s *schedule) {
	if d.one(2) {
		s.loseAnswer = d.operation()
	}
	if d.one(2) {
		s.slowAt, s.slowFor = d.operation(), whiles[d.IntN(len(whiles))]
	}
}

func (d scheduleGenerator) driver(s *schedule) {
	if len(d.calm.calls) == 0 {
		return
	}
	s.csiAt = d.operation()
	s.csiUntil = s.csiAt + d.IntN(6)
	kinds := 4
	if d.calm.work.saves {
		kinds-- // who saves a volume while it is being deleted comes too late
	}
	switch d.IntN(kinds) {
	case 0:
		s.csi.Code = codes.Code(1 + d.IntN(int(codes.Unauthenticated)))
	case 1:
		unclear := slices.Concat(halfDone, uncertain)
		s.csi = csidriver.Fault{Code: unclear[d.IntN(len(unclear))], Effect: csidriver.Done}
	case 2:
		s.csi.Shape = []csidriver.Shape{csidriver.Empty, csidriver.Small}[d.IntN(2)]
	case 3:
		s.csiUntil = s.csiAt // each takes long
		s.csi = csidriver.Fault{Code: codes.DeadlineExceeded, Effect: csidriver.Late, After: []time.Duration{lateEffect, 2 * callTimeout}[d.IntN(2)]}
		s.driverLocks = true // see csidriver.Driver
	}
}

func (d scheduleGenerator) watches(s *schedule) {
	s.breaksAt = d.IntN(d.calm.ops + 1)
	for _, kind := range d.calm.work.kinds() {
		if f := (view.Fault{Lag: d.IntN(4), Late: d.IntN(4), Frozen: d.one(2), Relist: d.one(2)}); d.one(2) {
			f.Kind = kind
			s.views = append(s.views, f)
		}
	}
}

func (d scheduleGenerator) leaders(s *schedule) {
	if d.one(2) {
		s.rivalAt = d.operation()
	} else {
		s.endAt = d.operation()
	}
}

func (d scheduleGenerator) clock(s *schedule) { s.jumpAt, s.jumpBy = d.operation(), time.Hour }

func (d scheduleGenerator) outage(s *schedule) {
	s.outage = outage{
		at: d.operation(), lasts: outageDurations[d.IntN(len(outageDurations))], of: []requests{ofAll, ofReads, ofWrites, ofJournal}[d.IntN(4)],
		reason: []metav1.StatusReason{"", metav1.StatusReasonForbidden, metav1.StatusReasonTimeout}[d.IntN(3)],
	}
}
