package kube

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// onHTTP2 returns the configuration of an API server that accepts all requests on one HTTP/2
// connection.
func onHTTP2(t *testing.T, handle http.HandlerFunc) *rest.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(handle)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// All requests share a connection, except those of a dedicated transport.
func TestDedicatedTransport(t *testing.T) {
	var mu sync.Mutex
	connections := map[string]int{}
	api := onHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		connections[r.Proto+" from "+r.RemoteAddr]++
	})
	for config, protocol := range map[*rest.Config]int{api: 2, rest.CopyConfig(api): 2, DedicatedTransport(api): 1} {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			response, err := client.Get(api.Host)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.ProtoMajor != protocol {
				t.Errorf("a request has %s", response.Proto)
			}
		}
	}
	if len(connections) != 2 {
		t.Errorf("three clients, one of them apart, had the connections %v", connections)
	}
	if api.Dial != nil || len(api.NextProtos) != 0 {
		t.Error("the configuration of the others has changed")
	}
}

// Each watch has its own connection, although the server accepts HTTP/2.
func TestWatchesHaveConnectionsOfTheirOwn(t *testing.T) {
	var mu sync.Mutex
	connections := map[string]bool{}
	both := make(chan struct{})
	api := onHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if connections[r.Proto+" from "+r.RemoteAddr] = true; len(connections) == 2 {
			close(both)
		}
		mu.Unlock()
		<-both // each watch goes on while the other one does
		mu.Lock()
	})
	client, err := WatchClient(api)
	if err != nil {
		t.Fatal(err)
	}
	var watches sync.WaitGroup
	for range 2 {
		watches.Go(func() {
			response, err := client.Get(api.Host)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			if response.ProtoMajor != 1 {
				t.Errorf("a watch has %s", response.Proto)
			}
		})
	}
	watches.Wait()
	if len(connections) != 2 {
		t.Errorf("two watches had the connections %v", connections)
	}
}
