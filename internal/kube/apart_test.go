package kube

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// Requests of one client share a connection, and those of one that is apart have another.
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
	for _, config := range []*rest.Config{api, api, Apart(api)} {
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
			if response.ProtoMajor != 2 {
				t.Errorf("a request has %s", response.Proto)
			}
		}
	}
	if len(connections) != 2 {
		t.Errorf("three clients, one of them apart, had the connections %v", connections)
	}
	if api.Dial != nil {
		t.Error("the configuration of the others has changed")
	}
}
