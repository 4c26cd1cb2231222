package reconcile

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/purser-csi/purser/internal/verdict"
)

const (
	// sayAfter is how long a key may wait for one reason without a word to its user.
	sayAfter = time.Minute
	// sayEvery is the time between two such events of a controller: many objects can begin to wait
	// for the same reason at once.
	sayEvery = 100 * time.Millisecond
)

// silence is a wait that no event has said.
type silence struct {
	reason verdict.Reason
	due    time.Time // when it is said
	booked bool      // due is its turn among those that are due
}

// silences has the keys that wait without an event. It is safe for concurrent use.
type silences[K comparable] struct {
	mu   sync.Mutex
	m    map[K]silence
	next time.Time // when the next event may be emitted
}

// wait notes that a key waits. It returns the requeue interval, and whether the event is to be emitted
// now, which is when the wait has lasted for after.
func (s *silences[K]) wait(
	key K, reason verdict.Reason, after time.Duration, now time.Time,
) (look time.Duration, say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, known := s.m[key]
	if !known || one.reason != reason {
		one = silence{reason: reason, due: now.Add(after)}
	}
	if !one.booked && !now.Before(one.due) {
		if s.next.Before(now) {
			s.next = now
		}
		one.due, one.booked = s.next, true
		s.next = s.next.Add(sayEvery)
	}
	if say = one.booked && !now.Before(one.due); say {
		one.due, one.booked = now.Add(TellAgain), false
	}
	if s.m == nil {
		s.m = map[K]silence{}
	}
	s.m[key] = one
	return one.due.Sub(now), say
}

// end notes that a key does not wait silently any more.
func (s *silences[K]) end(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, key)
}

// isUnsaid reports whether no event tells the users of a wait or refusal. That of a cluster-scoped
// object does not reach them.
func isUnsaid(about About, reason verdict.Reason) bool {
	if len(about.users()) == 0 || verdict.WaitsLong(reason) != "" {
		return false
	}
	hidden := about.Object != nil && about.Users != nil
	return hidden || verdict.Describe(reason).Severity == verdict.Silent
}

// listen says a wait to the users of its object when it has lasted for long. It returns
// the requeue interval; 0 for none.
func (l *Loop[K, S, A]) listen(key K, about About, v verdict.Verdict[A]) time.Duration {
	switch v.(type) {
	case verdict.Wait[A], verdict.Refuse[A]:
	default:
		l.silences.end(key)
		return 0
	}
	finding := v.Because()
	if verdict.IsBackoff(finding.Reason) {
		return 0 // the reason of the attempt before goes on
	}
	if !isUnsaid(about, finding.Reason) {
		l.silences.end(key)
		return 0
	}
	look, say := l.silences.wait(key, finding.Reason, cmp.Or(l.SayAfter, sayAfter), l.Clock.Now())
	if say {
		l.say(about.users(), finding)
	}
	return look
}

// say emits a finding that has no event of its own.
func (l *Loop[K, S, A]) say(users []runtime.Object, finding verdict.Finding) {
	info := verdict.Describe(finding.Reason)
	reason := info.Event
	if reason == "" {
		reason = string(finding.Reason)
	}
	if finding.Fix == "" {
		finding.Fix = verdict.Advice(finding.Reason)
	}
	for _, user := range users {
		Emit(l.Events, finding.Reason, user, eventType(info.Severity), reason,
			"Goes on for more than a minute: "+finding.Text())
	}
}
