package kube

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// Throttle is a limit for all requests of a process together. Each client that is made with a
// configuration would have one of its own without it, and there is one for each kind of object.
type Throttle struct {
	flowcontrol.RateLimiter

	events flowcontrol.RateLimiter
	told   atomic.Pointer[func(seconds float64)]
}

// NewThrottle lets burst requests pass at once and qps in each second, and as many for events, so
// that neither waits for the other.
func NewThrottle(qps float32, burst int) *Throttle {
	return &Throttle{
		RateLimiter: flowcontrol.NewTokenBucketRateLimiter(
			qps,
			burst,
		), events: flowcontrol.NewTokenBucketRateLimiter(qps, burst),
	}
}

// Tell sets the function that is called with the seconds that each request has waited.
func (t *Throttle) Tell(waited func(seconds float64)) { t.told.Store(&waited) }

// Wait implements flowcontrol.RateLimiter.
func (t *Throttle) Wait(ctx context.Context) error {
	began := time.Now()
	err := t.RateLimiter.Wait(ctx)
	if told := t.told.Load(); told != nil {
		(*told)(time.Since(began).Seconds())
	}
	return err
}
