package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/explain/inventory"
	"github.com/purser-csi/purser/internal/life"
	pages "github.com/purser-csi/purser/internal/ui"
)

// manyTabs are more than the connections that a browser has for one server.
const manyTabs = 9

// stateWith is the state of a cluster in which one claim is stuck.
func stateWith(t *testing.T, claim string) *pages.State {
	t.Helper()
	builder := inventory.NewBuilder(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	_, err := builder.Parse("test", fmt.Appendf(nil, `
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s, namespace: shop, uid: u, creationTimestamp: "2026-01-01T00:00:00Z"},
  spec: {storageClassName: nope, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: d.example.com}`, claim))
	must(t, err)
	c := builder.Cluster()
	return &pages.State{
		Title: "test", Live: true, Cluster: c,
		Changes: func() *life.History { return life.New(life.OfCluster(c)) },
	}
}

// More visible tabs than a browser has connections for one server follow the states, by one connection.
func TestManyTabs(t *testing.T) {
	server := pages.NewServer(stateWith(t, "older"))
	inner := pages.Guarded(server.Handler(), pages.Access{})
	var now, most atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			for n := now.Add(1); ; {
				if before := most.Load(); n <= before || most.CompareAndSwap(before, n) {
					break
				}
			}
			defer now.Add(-1)
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	b := newBrowser(t, true)
	b.open(web.URL + "/board")
	b.js(fmt.Sprintf(`window.tabs = Array.from({length: %d}, (_, i) => open('/board', 'tab' + i, 'popup'))`, manyTabs))
	b.until(`tabs.every((tab) => tab.document.documentElement.hasAttribute('data-ready'))`)
	if !value[bool](b, `tabs.every((tab) => !tab.document.hidden)`) {
		t.Fatal("a tab is hidden")
	}
	for _, claim := range []string{"newer", "newest"} {
		server.Set(stateWith(t, claim))
		b.until(fmt.Sprintf(
			`[window, ...tabs].every((tab) => tab.document.getElementById('main').textContent.includes(%q))`, claim,
		))
	}
	if n := most.Load(); n != 1 {
		t.Errorf("%d connections for events at the same time", n)
	}
	b.wellBehaved(web.URL)
}
