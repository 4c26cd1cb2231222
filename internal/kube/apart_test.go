package kube

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// All requests share a connection, but those that are apart.
func TestApart(t *testing.T) {
	var mu sync.Mutex
	connections := map[string]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		connections[r.Proto+" from "+r.RemoteAddr]++
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	api := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	for config, protocol := range map[*rest.Config]int{api: 2, rest.CopyConfig(api): 2, Apart(api): 1} {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			response, err := client.Get(server.URL)
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
