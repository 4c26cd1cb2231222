package kube

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// roundTrip answers when release is closed.
type roundTrip struct{ release <-chan struct{} }

func (r roundTrip) RoundTrip(*http.Request) (*http.Response, error) {
	<-r.release
	return &http.Response{StatusCode: http.StatusOK}, nil
}

// writes makes requests of a process that are under way until the returned function is called.
func writes(t *testing.T, traffic *Traffic, requests ...string) (end func()) {
	t.Helper()
	release := make(chan struct{})
	api := &rest.Config{}
	traffic.Count(api)
	transport := api.WrapTransport(roundTrip{release})
	for i := 0; i < len(requests); i += 2 {
		request, err := http.NewRequestWithContext(t.Context(), requests[i], "http://api"+requests[i+1], nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = transport.RoundTrip(request) }() //nolint:bodyclose // there is none
	}
	synctest.Wait()
	return func() { close(release) }
}

const (
	claimPath = "/api/v1/namespaces/ns/persistentvolumeclaims/a"
	eventPath = "/api/v1/namespaces/ns/events"
)

// An event lets the writes pass that a pod waits for, but not for ever, and not at the end of
// the process.
func TestEventsGiveWay(t *testing.T) {
	for name, tc := range map[string]struct {
		requests []string
		end      time.Duration // of the requests
		close    bool
		warning  bool
		at       time.Duration // by when the event is written, and not before
	}{
		"to writes":            {[]string{"PATCH", claimPath, "PUT", claimPath}, 3 * time.Second, false, false, 3 * time.Second},
		"not for ever":         {[]string{"PATCH", claimPath, "PUT", claimPath}, time.Minute, false, false, yieldTime},
		"less for a warning":   {[]string{"PATCH", claimPath, "PUT", claimPath}, time.Minute, false, true, warnedTime},
		"not to a single one":  {[]string{"PATCH", claimPath}, time.Minute, false, false, 0},
		"not to reads":         {[]string{"GET", claimPath, "GET", claimPath}, time.Minute, false, false, 0},
		"not to other events":  {[]string{"POST", eventPath, "PATCH", eventPath + "/b"}, time.Minute, false, false, 0},
		"not when all is over": {[]string{"PATCH", claimPath, "PUT", claimPath}, time.Minute, true, false, 0},
	} {
		kind := corev1.EventTypeNormal
		if tc.warning {
			kind = corev1.EventTypeWarning
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				traffic, sink := &Traffic{}, newSink(0)
				end := writes(t, traffic, tc.requests...)
				time.AfterFunc(tc.end, end)
				events := newEvents(t.Context(), EventsConfig{Component: "test", Traffic: traffic}, sink)
				events.Event(claim("a"), kind, "Provisioning", "provisioning")
				if tc.close {
					events.Close()
				}
				const moment = time.Millisecond // what is due at the same time comes in any order
				if time.Sleep(tc.at - moment); tc.at > 0 && sink.written() > 0 {
					t.Error("the event was written too early")
				}
				if time.Sleep(moment + 2*yieldLook); sink.written() != 1 {
					t.Error("the event was not written")
				}
				time.Sleep(time.Minute)
				if !tc.close {
					events.Close()
				}
			})
		})
	}
}
