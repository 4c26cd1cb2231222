package kube

import (
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// A connection whose API server has vanished without a word ends after a minute, as client-go's own pings would have it.
const (
	dialTime   = 30 * time.Second
	aliveIdle  = 30 * time.Second
	aliveEvery = 10 * time.Second
	aliveTimes = 3
)

// Apart is for requests that must not wait for those of everybody else: they have a connection of their own. Else all of a process share one,
// and what is on it waits in line for an API server that is busy, behind hundreds of other writes.
func Apart(api *rest.Config) *rest.Config {
	api = rest.CopyConfig(api)
	if api.Dial == nil { // client-go shares no connection between configurations that have one
		dialer := &net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: aliveIdle, Interval: aliveEvery, Count: aliveTimes,
		}}
		api.Dial = dialer.DialContext
	}
	return api
}
