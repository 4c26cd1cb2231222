package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	snapshotgroupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// silentFor is how long a key may wait without an event on an object that a user owns: a minute, and
// what the rate limit of these events and a queue take.
const silentFor = 75 * time.Second

// mostEvents bounds the events that are remembered of one object.
const mostEvents = 30

// told is an event of a process under test.
type told struct {
	reason string
	at     time.Time
}

// waitKey is a key of a controller in one process.
type waitKey struct {
	process    int
	controller string
	key        any
}

// openWait is a wait of a key that has not ended.
type openWait struct {
	lives  func() bool // the process that waits
	since  time.Time
	reason verdict.Reason
	users  []client.Object
}

// silences has the events of a run, and the waits. It is safe for concurrent use.
type silences struct {
	server  *apiserver.Server
	now     func() time.Time
	violate func(format string, args ...any)

	mu     sync.Mutex
	events map[types.UID][]told
	open   map[waitKey]openWait
}

func newSilences(server *apiserver.Server, now func() time.Time, violate func(string, ...any)) *silences {
	return &silences{server: server, now: now, violate: violate, events: map[types.UID][]told{}, open: map[waitKey]openWait{}}
}

// tells writes the events of a process. It implements reconcile.Recorder.
type tells struct{ process *process }

// Event implements reconcile.Recorder.
func (t tells) Event(object runtime.Object, _, reason, message string) {
	o, ok := object.(client.Object)
	if w := t.process.world; ok && !t.process.isDead() && !w.mutant.mute {
		w.log("event on %s: %s: %s", o.GetName(), reason, message)
		w.silences.event(o, reason)
	}
}

func (s *silences) event(o client.Object, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.events[o.GetUID()]
	all = append(all, told{reason, s.now()})
	s.events[o.GetUID()] = all[max(0, len(all)-mostEvents):]
}

// observe notes that a key waits, or does not wait any more.
func (s *silences) observe(process int, lives func() bool, run reconcile.Run) {
	var users []client.Object
	for _, user := range run.Users {
		if o, ok := user.(client.Object); ok && isOfUser(o) {
			users = append(users, o)
		}
	}
	key := waitKey{process, run.Controller, run.Key}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.open[key]
	switch {
	case !run.Waits || len(users) == 0 || verdict.WaitsLong(run.Reason) != "":
		s.check(before)
		delete(s.open, key)
	case known && (before.reason == run.Reason || verdict.IsBackoff(run.Reason)):
		if s.check(before) {
			before.since = s.now()
		}
		before.users = users
		s.open[key] = before
	default:
		s.check(before)
		s.open[key] = openWait{lives, s.now(), run.Reason, users}
	}
}

// isOfUser reports whether an object belongs to a user, who sees the events on it.
func isOfUser(o client.Object) bool {
	switch o.(type) {
	case *corev1.PersistentVolumeClaim, *corev1.Pod, *snapshotv1.VolumeSnapshot, *snapshotgroupv1.VolumeGroupSnapshot:
		return true
	}
	return false
}

// atEnd checks the waits that go on.
func (s *silences) atEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, wait := range s.open {
		s.check(wait)
	}
}

// check reports that a wait was too long without an event. The caller holds mu.
func (s *silences) check(wait openWait) (silent bool) {
	if wait.lives == nil || !wait.lives() || s.now().Sub(wait.since) < silentFor {
		return false
	}
	if slices.ContainsFunc(wait.users, func(o client.Object) bool { return s.isTold(o, wait) || !s.exists(o) }) {
		return false
	}
	s.violate("I11: %s waits for %s without an event, for the reason %s",
		wait.users[0].GetName(), s.now().Sub(wait.since).Round(time.Second), wait.reason)
	return true
}

// isTold reports whether there was an event on an object since a wait began. One with the reason of the
// wait is not emitted again within [reconcile.TellAgain].
func (s *silences) isTold(o client.Object, wait openWait) bool {
	reason := verdict.Describe(wait.reason).Event
	return slices.ContainsFunc(s.events[o.GetUID()], func(e told) bool {
		return !e.at.Before(wait.since.Add(-time.Second)) || e.reason == reason && s.now().Sub(e.at) < reconcile.TellAgain
	})
}

// exists reports whether the very object is there.
func (s *silences) exists(o client.Object) bool {
	now := o.DeepCopyObject().(client.Object)
	err := s.server.Client().Get(context.Background(), client.ObjectKeyFromObject(o), now)
	return err == nil && now.GetUID() == o.GetUID()
}
