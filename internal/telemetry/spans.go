package telemetry

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// PathSpans is the HTTP path of the last spans of a role.
const PathSpans = "/debug/purser/life"

// SpansSchema names the form of what [Spans] serves.
const SpansSchema = "purser.spans/v1"

// Span is what a role did: a call to its driver, or a decision that had an effect. It has no
// message: that of a driver may have anything in it.
type Span struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Role   string    `json:"role,omitempty"`   // the controller, or the role that called the driver
	Name   string    `json:"name"`             // the RPC, such as CreateVolume, or the decision's reason
	Code   string    `json:"code,omitempty"`   // of a call, such as OK; empty for a decision
	Volume string    `json:"volume,omitempty"` // of a call: the name in the request, or the handle
	Object string    `json:"object,omitempty"` // of a decision: NAMESPACE/NAME, or NAME
}

// spansKept bounds the spans that a process keeps: some 1 MB.
const spansKept = 4096

// Spans are the last spans of a process. They are safe for several goroutines; nil keeps none.
type Spans struct {
	mu       sync.Mutex
	ring     []Span
	added    uint64
	instance string
}

// NewSpans returns an empty ring. instance tells it from that of another process at the same
// address.
func NewSpans(instance string) *Spans { return &Spans{instance: instance} }

// Add appends a span, in the place of the oldest one if there are too many.
func (s *Spans) Add(span Span) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < spansKept {
		s.ring = append(s.ring, span)
	} else {
		s.ring[s.added%spansKept] = span
	}
	s.added++
}

// SpansAnswer is what is served at [PathSpans].
type SpansAnswer struct {
	Schema   string `json:"schema"`
	Instance string `json:"instance"`
	// Next is the number to ask with for the spans that follow: ?after=NEXT.
	Next uint64 `json:"next"`
	// Lost is how many spans since that number are not kept any more.
	Lost  uint64 `json:"lost,omitempty"`
	Spans []Span `json:"spans"`
}

// After returns the spans after a number of spans.
func (s *Spans) After(n uint64) SpansAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := SpansAnswer{Schema: SpansSchema, Instance: s.instance, Next: s.added, Spans: []Span{}}
	first := min(n, s.added)
	if kept := uint64(len(s.ring)); s.added-first > kept {
		answer.Lost = s.added - first - kept
		first = s.added - kept
	}
	for i := first; i < s.added; i++ {
		answer.Spans = append(answer.Spans, s.ring[i%spansKept])
	}
	return answer
}

// ServeHTTP implements http.Handler.
func (s *Spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseUint(cmp.Or(r.URL.Query().Get("after"), "0"), 10, 64)
	if err != nil {
		http.Error(w, "after: expected the number of the field next of an answer", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.After(after)) // a client that has gone needs no answer
}
