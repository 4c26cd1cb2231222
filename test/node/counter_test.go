package node

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
)

// counter counts the requests of the agent, watches and events apart.
type counter struct {
	mu     sync.Mutex
	counts map[string]int
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *counter) counting(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.URL.Query().Get("watch") == "" {
			c.mu.Lock()
			if c.counts == nil {
				c.counts = map[string]int{}
			}
			c.counts[request.Method+" "+resourceOf(request.URL.Path)]++
			c.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// resourceOf is the kind of objects in a path, with the subresource.
func resourceOf(p string) string {
	parts := strings.Split(strings.Trim(p, "/"), "/")
	if parts[0] == "api" {
		parts = parts[min(2, len(parts)):]
	} else {
		parts = parts[min(3, len(parts)):]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[min(2, len(parts)):]
	}
	if len(parts) == 0 {
		return p
	}
	if len(parts) > 2 {
		return path.Join(parts[0], parts[2])
	}
	return parts[0]
}

func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = nil
}

func (c *counter) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.counts)
}

// reads counts the requests that read.
func (c *counter) reads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for what, count := range c.counts {
		if strings.HasPrefix(what, http.MethodGet) {
			n += count
		}
	}
	return n
}
