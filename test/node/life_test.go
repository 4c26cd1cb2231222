package node

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// One pod, one claim, and no faults: one call of each kind, and no read of the API server.
func TestOnePod(t *testing.T) {
	r := newRig(t)
	r.start()
	pv := r.volume("data")
	r.eventually("registered", func() bool { return r.proxy.count("NodeGetInfo") == 1 })
	r.requests.reset()
	pod := r.pod("one", []corev1.Volume{claimed("data")})
	r.waitPublished(pod)
	if err := os.WriteFile(filepath.Join(r.target(pod, pv), "hello"), []byte("world"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.remove(pod)
	r.waitGone(pod)
	r.waitClean()
	if got := r.proxy.mounting(); got != "stage 1, publish 1, unpublish 1, unstage 1" {
		t.Error(got)
	}
	if r.requests.reads() != 0 {
		t.Errorf("requests of the agent: %s", r.requests.text())
	}
	t.Logf("requests of the agent: %s", r.requests.text())
}
