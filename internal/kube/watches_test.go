package kube

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// Each watch has a connection of its own, although the server would take all on one.
func TestWatchesHaveConnectionsOfTheirOwn(t *testing.T) {
	var mu sync.Mutex
	connections := map[string]bool{}
	both := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if connections[r.Proto+" from "+r.RemoteAddr] = true; len(connections) == 2 {
			close(both)
		}
		mu.Unlock()
		<-both // each watch goes on while the other one does
		mu.Lock()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	api := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	client, err := WatchClient(api)
	if err != nil {
		t.Fatal(err)
	}
	var watches sync.WaitGroup
	for range 2 {
		watches.Go(func() {
			response, err := client.Get(server.URL)
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
