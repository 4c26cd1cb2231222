package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/sim/csidriver"
	"github.com/purser-csi/purser/test/sim/view"
)

// schedule is what goes wrong in one run. Operations, which are writes to the API server and calls
// to the driver, are numbered from 1 in the order in which they begin. The zero value is a run
// without faults.
type schedule struct {
	crashes         []crash
	downFor         time.Duration // between a crash and the next process
	alone           time.Duration // after the first crash there is no process for so long, in place of downFor
	joins           bool          // then, when the next process starts, the user asks for one more claim
	deleteWhileDown bool          // the user deletes all claims meanwhile
	deleteAt        int           // the user deletes all claims right after this operation
	recreateClassAt int           // the classes are deleted and made again with other parameters
	dropClassAt     int           // the classes are deleted
	handClassAt     int           // they are made again for another driver, whose provisioner is there
	replaceAt       int           // an administrator replaces released volumes by others of the same name
	dropVolumesAt   int           // the user deletes all volumes
	dropJournalAt   int           // an administrator deletes the journal
	loseAnswer      int           // of this write; the process lives on
	slowAt          int           // this write is on its way for slowFor; its process waits for it
	slowFor         time.Duration // also of a write whose process dies meanwhile
	csiAt           int           // the operation that csi is for
	csiUntil        int           // the last of those; 0 for only one
	csi             csidriver.Fault
	driverLocks     bool
	driverVague     bool // see csidriver.Driver
	views           []view.Fault
	breaksAt        int // the operation after which views counts; 0 is from the beginning
	rivalAt         int // a second leader starts after this operation
	outage          outage
	missing         thing // goes after the operation missingAt, and the user deletes everything
	missingAt       int
	jumpAt          int // the wall clock of the processes is set forward after this operation
	jumpBy          time.Duration
	endAt           int // the process that did this operation is asked to end after it, as in an upgrade, and the next one waits for that
}

// crash kills the process at an operation.
type crash struct {
	at       int
	position position
}

// position is where in an operation the process dies.
type position string

const (
	before   position = "before it is sent"
	lost     position = "after its effect"
	inFlight position = "while the driver works on it" // the effect comes later, within the time that a call may take
	under    position = "while it is on its way"       // a write, which arrives after slowFor
	after    position = "after the answer"
)

// lateEffect is when a call takes effect whose caller is dead.
const lateEffect = 9 * time.Second

func (s schedule) crashAt(n int) (position, bool) {
	for _, c := range s.crashes {
		if c.at == n {
			return c.position, true
		}
	}
	return "", false
}

func (s schedule) String() string {
	var parts []string
	say := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	for _, c := range s.crashes {
		say(true, "crash at %d %s", c.at, c.position)
	}
	say(s.downFor > 0, "down for %s", s.downFor)
	say(s.alone > 0, "for the first time for %s", s.alone)
	say(s.joins, "one more claim then")
	say(s.deleteWhileDown, "claims deleted while down")
	say(s.deleteAt > 0, "claims deleted after %d", s.deleteAt)
	say(s.recreateClassAt > 0, "classes created again after %d", s.recreateClassAt)
	say(s.handClassAt > 0, "classes created again for another driver after %d", s.handClassAt)
	say(s.dropClassAt > 0, "classes deleted after %d", s.dropClassAt)
	say(s.replaceAt > 0, "volumes replaced after %d", s.replaceAt)
	say(s.dropVolumesAt > 0, "volumes deleted after %d", s.dropVolumesAt)
	say(s.dropJournalAt > 0, "journal deleted after %d", s.dropJournalAt)
	say(s.loseAnswer > 0, "answer of %d lost", s.loseAnswer)
	say(s.slowAt > 0, "%d is slow", s.slowAt)
	say(s.slowFor > 0, "on its way for %s", s.slowFor)
	say(s.csiAt > 0, "calls %d to %d: %s effect=%d shape=%d", s.csiAt, max(s.csiAt, s.csiUntil), s.csi.Code, s.csi.Effect, s.csi.Shape)
	say(s.driverVague, "the driver looks at parameters first")
	for _, f := range s.views {
		say(true, "%T from %d: lag=%d late=%d frozen=%v relist=%v", f.Kind, s.breaksAt, f.Lag, f.Late, f.Frozen, f.Relist)
	}
	say(s.rivalAt > 0, "second leader after %d", s.rivalAt)
	say(s.outage.at > 0, "%s", s.outage)
	say(s.missingAt > 0, "%s goes and everything is deleted after %d", s.missing, s.missingAt)
	say(s.jumpAt > 0, "clock set forward by %s after %d", s.jumpBy, s.jumpAt)
	say(s.endAt > 0, "asked to end after %d", s.endAt)
	if len(parts) == 0 {
		return "no faults"
	}
	return strings.Join(parts, ", ")
}

// faultless says that nothing but the workload happens.
func (s schedule) faultless() bool { return s.String() == schedule{}.String() }

// unseen says that no more goes wrong than that a process which lives on does not see what happens.
func (s schedule) unseen() bool {
	s.views, s.breaksAt, s.deleteAt, s.dropVolumesAt = nil, 0, 0, 0
	return s.faultless()
}

// blindTo reports whether the watch of a kind is broken.
func (s schedule) blindTo(kind client.Object) bool {
	return slices.ContainsFunc(s.views, func(f view.Fault) bool { return reflect.TypeOf(f.Kind) == reflect.TypeOf(kind) })
}

// faultOf is the fault of a call to the driver.
func (s schedule) faultOf(n int) csidriver.Fault {
	if where, ok := s.crashAt(n); ok && where == inFlight {
		return csidriver.Fault{Code: codes.Unavailable, Effect: csidriver.Late, After: lateEffect}
	}
	if s.csiAt <= n && n <= max(s.csiAt, s.csiUntil) {
		return s.csi
	}
	return csidriver.Fault{}
}
