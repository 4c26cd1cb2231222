package reconcile

import (
	"sync"
	"time"
)

// Backoff is the delay before the next attempt: First, doubled per attempt, at most Most (C-3).
type Backoff struct{ First, Most time.Duration }

// Delay returns the delay before the next attempt after the given number of failed ones.
func (b Backoff) Delay(failed int) time.Duration {
	d := b.First
	for range failed - 1 {
		if d >= b.Most/2 {
			return b.Most
		}
		d *= 2
	}
	return min(d, b.Most)
}

// Retry has the failed attempts of one key.
type Retry struct {
	Failed    int       // attempts in a row
	NotBefore time.Time // when the next one is due
	Inputs    string    // digest of what the last one was made from
	unwritten int       // of those in a row, the last ones that ended at a rejected write
	told      tellings  // by the reason of the event
	logged    string    // the last refusal in the log
}

// Retries has the failed attempts of each key. It is safe for concurrent use.
type Retries[K comparable] struct {
	mu sync.Mutex
	m  map[K]Retry
}

// NewRetries returns Retries without keys.
func NewRetries[K comparable]() *Retries[K] { return &Retries[K]{m: map[K]Retry{}} }

// Get returns the failed attempts of a key; the zero value if there are none.
func (r *Retries[K]) Get(key K) Retry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[key]
}

// Has reports whether a key has failed attempts.
func (r *Retries[K]) Has(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.m[key]
	return ok
}

// failed counts one more failed attempt.
func (r *Retries[K]) failed(key K, notBefore time.Time, inputs string, unwritten bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.m[key]
	one.Failed++
	one.NotBefore, one.Inputs = notBefore, inputs
	if one.unwritten++; !unwritten {
		one.unwritten = 0
	}
	r.m[key] = one
}

// isNew reports whether an event with this text was not emitted yet for the key, or, for a state that
// goes on, not within [TellAgain].
func (r *Retries[K]) isNew(key K, event, text string, now time.Time, goesOn bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.m[key]
	if one.told == nil {
		one.told = tellings{}
		r.m[key] = one
	}
	next := telling{text: text, at: now, waits: goesOn}
	if goesOn {
		next.again = TellAgain
	}
	return one.told.isNew(event, next)
}

// isUnlogged reports whether a refusal with this text is not the last that was logged for the key, and
// notes it.
func (r *Retries[K]) isUnlogged(key K, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, has := r.m[key]
	if one.logged == text {
		return false
	}
	if has {
		one.logged = text
		r.m[key] = one
	}
	return true
}

func (r *Retries[K]) forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.m, key)
}
