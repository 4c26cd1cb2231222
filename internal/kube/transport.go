package kube

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// TCP keep-alive closes a connection to an API server that does not answer any more after a minute,
// as the HTTP/2 pings of client-go do.
const (
	dialTime   = 30 * time.Second
	aliveIdle  = 30 * time.Second
	aliveEvery = 10 * time.Second
	aliveTimes = 3
)

// DedicatedTransport returns a configuration for requests that must not wait for other requests of
// the process. Each request in flight has a connection of its own, with HTTP/1.1. With HTTP/2 all
// requests share one connection, and a response waits behind the responses to hundreds of writes.
//
// If the API server disappears without closing the connection, a watch ends after a minute. Any
// other request ends only with its own timeout, so a request without a timeout may never end.
func DedicatedTransport(api *rest.Config) *rest.Config {
	api = rest.CopyConfig(api)
	api.NextProtos = []string{"http/1.1"}
	if api.Dial == nil { // client-go shares no connection between configurations that have one
		dialer := &net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: aliveIdle, Interval: aliveEvery, Count: aliveTimes,
		}}
		api.Dial = dialer.DialContext
	}
	return api
}

// WatchClient returns the HTTP client of informer caches. On a shared connection the events of a
// watch wait for other responses. The API server then ends the watch as too slow, and the watches
// of other clients are delayed meanwhile.
func WatchClient(api *rest.Config) (*http.Client, error) {
	client, err := rest.HTTPClientFor(DedicatedTransport(api))
	if err != nil {
		return nil, fmt.Errorf("connections for watches: %w", err)
	}
	return client, nil
}
