package kube

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// WatchClient is for caches: each watch has a connection of its own, which is HTTP/1.1. On a shared one, an event waits in line behind
// the answers to hundreds of writes, and an API server that is busy takes a watch for too slow when its events wait, ends it, and
// holds up those of all others meanwhile.
func WatchClient(api *rest.Config) (*http.Client, error) {
	api = Apart(api)
	api.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(api)
	if err != nil {
		return nil, fmt.Errorf("connections for watches: %w", err)
	}
	return client, nil
}
