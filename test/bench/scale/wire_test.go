package scale

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

func TestRequestOf(t *testing.T) {
	for _, tc := range []struct {
		method, url string
		want        request
	}{
		{"GET", "/api/v1/pods?limit=500", request{Verb: "list", Resource: "pods", How: "page"}},
		{"GET", "/api/v1/pods?continue=x", request{Verb: "list", Resource: "pods", How: "page"}},
		{"GET", "/api/v1/pods?limit=0", request{Verb: "list", Resource: "pods", How: "whole"}},
		{"GET", "/api/v1/namespaces/a/pods", request{Verb: "list", Resource: "pods", How: "whole"}},
		{"GET", "/api/v1/namespaces/a/pods/b", request{Verb: "get", Resource: "pods"}},
		{"GET", "/api/v1/namespaces/a", request{Verb: "get", Resource: "namespaces"}},
		{"GET", "/api/v1/namespaces", request{Verb: "list", Resource: "namespaces", How: "whole"}},
		{"GET", "/api/v1/nodes?watch=true", request{Verb: "watch", Resource: "nodes"}},
		{
			"GET", "/apis/storage.k8s.io/v1/csinodes?watch=true&sendInitialEvents=true",
			request{Verb: "watch", Resource: "csinodes", How: "watch-list"},
		},
		{"PATCH", "/apis/storage.k8s.io/v1/volumeattachments/a/status", request{Verb: "patch", Resource: "volumeattachments/status"}},
		{"POST", "/api/v1/namespaces/a/events", request{Verb: "create", Resource: "events"}},
		{"GET", "/apis", request{Verb: "get", Resource: "/apis"}},
		{"GET", "/apis/storage.k8s.io/v1", request{Verb: "get", Resource: "/apis"}},
		{"GET", "/version", request{Verb: "get", Resource: "/version"}},
	} {
		got := requestOf(httptest.NewRequest(tc.method, tc.url, http.NoBody))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s %s: %s", tc.method, tc.url, diff)
		}
	}
}

// The proxy counts the bytes of the body and passes on the token.
func TestWire(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
		_, _ = w.Write(make([]byte, 1000))
	}))
	defer server.Close()
	api := &rest.Config{Host: server.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	w, err := newWire(api)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	through := w.through(api)
	client, err := rest.HTTPClientFor(through)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		response, err := client.Get(through.Host + "/api/v1/pods?limit=2")
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); err != nil || len(body) != 1000 {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
		response.Body.Close()
	}
	want := []line{{request{Verb: "list", Resource: "pods", How: "page", Type: "protobuf"}, traffic{Requests: 2, Bytes: 2000}}}
	if diff := cmp.Diff(want, w.lines(), cmp.AllowUnexported(line{})); diff != "" {
		t.Error(diff)
	}
}
