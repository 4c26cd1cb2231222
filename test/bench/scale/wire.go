package scale

import (
	"cmp"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// wire is a proxy in front of the API server that counts requests, and the bytes of the responses as they
// are sent: compressed where the server compresses them.
type wire struct {
	server *httptest.Server

	mu     sync.Mutex
	counts map[request]*traffic
}

// request is a kind of request.
type request struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	How      string `json:"how,omitempty"`  // of a list or watch: see howOf
	Type     string `json:"type,omitempty"` // of the response: protobuf, json
}

// traffic is how often a request was made, and what was received.
type traffic struct {
	Requests int   `json:"requests"`
	Bytes    int64 `json:"bytes"`
}

// newWire starts a proxy. Its certificate is its own; the token of the client is passed on.
func newWire(api *rest.Config) (*wire, error) {
	target, err := url.Parse(api.Host)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	tls, err := rest.TLSConfigFor(rest.AnonymousClientConfig(api))
	if err != nil {
		return nil, fmt.Errorf("certificates of the API server: %w", err)
	}
	const connections = 1000
	transport := &http.Transport{TLSClientConfig: tls, DisableCompression: true, MaxIdleConnsPerHost: connections}
	w := &wire{counts: map[request]*traffic{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, FlushInterval: -1, // each event of a watch at once
		ErrorLog: log.New(io.Discard, "", 0), // of watches that end with their programs
	}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		counted := &countingWriter{ResponseWriter: to, wire: w, request: requestOf(r)}
		proxy.ServeHTTP(counted, r)
	}))
	w.server.EnableHTTP2 = true
	w.server.StartTLS()
	return w, nil
}

func (w *wire) close() {
	w.server.CloseClientConnections()
	w.server.Close()
}

// through returns the configuration of a client that reaches the API server through the proxy.
func (w *wire) through(api *rest.Config) *rest.Config {
	api = rest.CopyConfig(api)
	api.Host = w.server.URL
	api.TLSClientConfig = rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}),
	}
	return api
}

func (w *wire) add(r request, requests int, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts[r] == nil {
		w.counts[r] = &traffic{}
	}
	w.counts[r].Requests += requests
	w.counts[r].Bytes += bytes
}

// line is a kind of request with its traffic.
type line struct {
	request
	traffic
}

// lines returns all traffic so far, the largest first. Leases are left out: they go on for ever.
func (w *wire) lines() (all []line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range slices.Collect(maps.Keys(w.counts)) {
		if !strings.HasPrefix(r.Resource, "leases") {
			all = append(all, line{r, *w.counts[r]})
		}
	}
	slices.SortFunc(all, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Resource+a.Verb, b.Resource+b.Verb))
	})
	return all
}

// countingWriter counts a response.
type countingWriter struct {
	http.ResponseWriter
	wire    *wire
	request request
	begun   bool
}

// Unwrap lets http.ResponseController flush.
func (c *countingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *countingWriter) WriteHeader(code int) {
	if !c.begun {
		c.begun = true
		c.request.Type = typeOf(c.Header().Get("Content-Type"))
		c.wire.add(c.request, 1, 0)
	}
	c.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (c *countingWriter) Write(part []byte) (int, error) {
	n, err := c.ResponseWriter.Write(part)
	c.wire.add(c.request, 0, int64(n))
	return n, err
}

// typeOf returns the short name of a content type.
func typeOf(header string) string {
	kind, _, err := mime.ParseMediaType(header)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(kind[strings.LastIndexByte(kind, '/')+1:], "vnd.kubernetes.")
}

// requestOf returns the kind of a request.
func requestOf(r *http.Request) request {
	verbs := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete",
	}
	of := request{Verb: verbs[r.Method]}
	resource, named := resourceOf(r.URL.Path)
	of.Resource = resource
	if r.Method != http.MethodGet || named || strings.HasPrefix(resource, "/") {
		return of
	}
	query := r.URL.Query()
	of.Verb = "list"
	if watches := query.Get("watch"); watches == "true" || watches == "1" {
		of.Verb = "watch"
	}
	of.How = howOf(of.Verb, query)
	return of
}

// howOf says how the objects of a list come: as the events of a watch, in pages, or all in one response.
func howOf(verb string, query url.Values) string {
	switch {
	case query.Get("sendInitialEvents") == "true":
		return "watch-list"
	case verb == "watch":
		return ""
	case query.Get("limit") != "" && query.Get("limit") != "0" || query.Get("continue") != "":
		return "page"
	}
	return "whole"
}

// resourceOf returns the resource of a path, with its subresource, and whether the path names one object;
// the path itself for discovery.
func resourceOf(path string) (resource string, named bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	const groupAndVersion = 3 // apis/GROUP/VERSION
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > groupAndVersion && parts[0] == "apis":
		parts = parts[groupAndVersion:]
	default:
		return "/" + parts[0], false
	}
	const namespaceAndName = 2 // namespaces/NAME
	if parts[0] == "namespaces" && len(parts) > namespaceAndName {
		parts = parts[namespaceAndName:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2], true
	}
	return parts[0], len(parts) > 1
}
