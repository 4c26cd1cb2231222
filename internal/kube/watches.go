package kube

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// The connection of a watch whose API server has vanished without a word ends after a minute, as client-go's own pings would have it.
const (
	dialTime   = 30 * time.Second
	aliveIdle  = 30 * time.Second
	aliveEvery = 10 * time.Second
	aliveTimes = 3
)

// WatchClient is for caches: each watch has a connection of its own, which is HTTP/1.1. On a shared one, an event waits in line behind
// the answers to hundreds of writes, and an API server that is busy takes a watch for too slow when its events wait, ends it, and
// holds up those of all others meanwhile.
func WatchClient(api *rest.Config) (*http.Client, error) {
	api = rest.CopyConfig(api)
	api.NextProtos = []string{"http/1.1"}
	if api.Dial == nil {
		dialer := &net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: aliveIdle, Interval: aliveEvery, Count: aliveTimes,
		}}
		api.Dial = dialer.DialContext
	}
	client, err := rest.HTTPClientFor(api)
	if err != nil {
		return nil, fmt.Errorf("connections for watches: %w", err)
	}
	return client, nil
}
