package csirpc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"
)

// slots bounds the calls of one RPC that are in flight. Calls that wait get a slot in the order in which
// they came.
type slots struct {
	gauge prometheus.Gauge // nil for none

	mu      sync.Mutex
	limit   limit
	busy    int
	waiting []chan struct{}
}

func newSlots(most int, gauge prometheus.Gauge) *slots {
	s := &slots{limit: newLimit(most), gauge: gauge}
	s.tell()
	return s
}

// take waits until one more call may be in flight. The slot must be given back at its end.
func (s *slots) take(ctx context.Context) error {
	s.mu.Lock()
	if s.busy < s.limit.now {
		s.busy++
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	most := s.limit.now
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.waiting {
		if other == turn {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return fmt.Errorf("wait for one of the %d calls that the driver gets at once to end: %w", most, ctx.Err())
		}
	}
	s.busy-- // the turn came at the same moment
	s.next()
	return fmt.Errorf("wait for one of the %d calls that the driver gets at once to end: %w", most, ctx.Err())
}

// give gives a slot back.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.next()
}

// next lets as many waiting calls begin as there are slots. The caller holds mu.
func (s *slots) next() {
	for len(s.waiting) > 0 && s.busy < s.limit.now {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		s.busy++
	}
}

// ended takes the end of a call into account, while it still has its slot.
func (s *slots) ended(err error, took, timeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved := s.limit.ended(answer{
		at: time.Now(), took: took, timeout: timeout, code: status.Code(err),
		waiting: len(s.waiting) > 0, inFlight: s.busy,
	})
	if moved {
		s.tell()
		s.next()
	}
}

func (s *slots) tell() {
	if s.gauge != nil {
		s.gauge.Set(float64(s.limit.now))
	}
}

// isCrowded reports that as many calls wait as may be in flight, so that one more would wait longer than a
// call takes.
func (s *slots) isCrowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) >= s.limit.now
}

// taken returns the number of calls that have a slot.
func (s *slots) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}
