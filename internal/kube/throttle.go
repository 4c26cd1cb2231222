package kube

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// Throttle is one rate limiter for all API requests of a process. Without it each client would have
// its own limiter, and there is a client for each kind of object.
type Throttle struct {
	flowcontrol.RateLimiter

	events  flowcontrol.RateLimiter
	observe atomic.Pointer[func(seconds float64)]
}

// NewThrottle returns a token bucket limiter. Events have a second one of the same size, so that
// events and other requests do not wait for each other.
func NewThrottle(qps float32, burst int) *Throttle {
	return &Throttle{
		RateLimiter: flowcontrol.NewTokenBucketRateLimiter(
			qps, burst,
		), events: flowcontrol.NewTokenBucketRateLimiter(qps, burst),
	}
}

// Tell sets the function that is called with the time that each request has waited.
func (t *Throttle) Tell(waited func(seconds float64)) { t.observe.Store(&waited) }

// Wait implements flowcontrol.RateLimiter.
func (t *Throttle) Wait(ctx context.Context) error {
	began := time.Now()
	err := t.RateLimiter.Wait(ctx)
	if observe := t.observe.Load(); observe != nil {
		(*observe)(time.Since(began).Seconds())
	}
	return err
}
