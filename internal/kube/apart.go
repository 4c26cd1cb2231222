package kube

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// A connection whose API server has vanished without a word ends after a minute, as client-go's own
// pings would have it.
const (
	dialTime   = 30 * time.Second
	aliveIdle  = 30 * time.Second
	aliveEvery = 10 * time.Second
	aliveTimes = 3
)

// DedicatedTransport is for requests that must not wait for those of everybody else: each under way
// has a connection of its own, which is HTTP/1.1. Else all of a process share one, and what is on
// it waits in line behind the answers to hundreds of writes.
//
// An API server that has vanished without a word is noticed by the end of a watch, after a minute,
// and by who waits for an answer when its own time is over: without a Timeout that is never.
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

// WatchClient is for caches. On a shared connection an API server takes a watch for too slow when
// its events wait, ends it, and holds up those of all others meanwhile.
func WatchClient(api *rest.Config) (*http.Client, error) {
	client, err := rest.HTTPClientFor(DedicatedTransport(api))
	if err != nil {
		return nil, fmt.Errorf("connections for watches: %w", err)
	}
	return client, nil
}
