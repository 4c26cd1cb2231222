package csirpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Calls begin in the order in which they came, and one whose context ends leaves no slot behind.
func TestSlotsAreInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, nil)
		if err := s.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		var order []int
		var mu sync.Mutex
		impatient, giveUp := context.WithCancel(t.Context())
		for i := range 4 {
			ctx := t.Context()
			if i == 1 {
				ctx = impatient
			}
			go func() {
				if err := s.take(ctx); err != nil {
					if i != 1 || !errors.Is(err, context.Canceled) {
						t.Errorf("%d: %v", i, err)
					}
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				s.give()
			}()
			synctest.Wait()
		}
		giveUp()
		synctest.Wait()
		s.give()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 2, 3}) || s.taken() != 0 {
			t.Errorf("order %v, %d slots are taken", order, s.taken())
		}
	})
}

// The calls of a driver that serves one at a time stop to time out, and the gauge shows the limit. Calls of
// another RPC keep theirs.
func TestOverloadedDriverGetsFewerCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "limit"}, []string{"method"})
		c := NewCaller(CallerConfig{Slots: 100, Locks: &VolumeLocks{}, InFlight: gauge(), Limits: limits})
		var calls atomic.Int64
		one := make(chan struct{}, 1)
		create := Call{Method: "CreateVolume", Timeout: 15 * time.Second, Send: func(ctx context.Context, _ map[string]string) error {
			calls.Add(1)
			select {
			case one <- struct{}{}:
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
			time.Sleep(time.Second)
			<-one
			return nil
		}}
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				for {
					failure := c.Do(t.Context(), create)
					if failure == nil {
						return
					}
					if failure.Code != codes.DeadlineExceeded {
						t.Errorf("%+v", failure)
						return
					}
				}
			})
		}
		all.Wait()
		if limit := testutil.ToFloat64(limits.WithLabelValues("CreateVolume")); limit > 15 {
			t.Errorf("the limit is %v at the end", limit)
		}
		if n := calls.Load(); n > 500 { // over 2,000 with a fixed limit of 100
			t.Errorf("%d calls for 300 operations", n)
		}
		t.Logf("%d calls for 300 operations", calls.Load())
		if err := c.slotsOf("DeleteVolume").take(t.Context()); err != nil {
			t.Error(err)
		}
		if limit := testutil.ToFloat64(limits.WithLabelValues("DeleteVolume")); limit != 100 {
			t.Errorf("the limit of another RPC is %v", limit)
		}
	})
}
