package kube

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// Traffic knows how many writes of a process are under way, so that what can wait lets them pass.
// An API server that is busy has the same time for an event as for the write that a user's pod
// waits for.
type Traffic struct{ underWay atomic.Int64 }

const (
	// calm is how many writes do not mind company.
	calm = 1
	// yieldTime is how long an event waits at most, and warnedTime a warning, which a user may be
	// waiting for: under a load that does not end, events are late and not lost.
	yieldTime  = 30 * time.Second
	warnedTime = 10 * time.Second
	// yieldLook is how often one that waits looks again.
	yieldLook = 10 * time.Millisecond
)

// Count has the writes counted that are made with the configuration, but for events.
func (t *Traffic) Count(api *rest.Config) {
	api.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{t, next} })
}

type counting struct {
	traffic *Traffic
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/events") {
		return c.next.RoundTrip(r)
	}
	c.traffic.underWay.Add(1)
	defer c.traffic.underWay.Add(-1)
	return c.next.RoundTrip(r)
}

// patience is how long an event of this type waits.
func patience(eventType string) time.Duration {
	if eventType == corev1.EventTypeWarning {
		return warnedTime
	}
	return yieldTime
}

// yield returns when hardly any write is under way, at the given time, or when stop is closed.
// A nil Traffic never waits.
func (t *Traffic) yield(until time.Time, stop <-chan struct{}) {
	if t == nil {
		return
	}
	for t.underWay.Load() > calm && time.Now().Before(until) {
		select {
		case <-stop:
			return
		case <-time.After(yieldLook):
		}
	}
}
