package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/cluster/pki"
)

func TestKubeconfig(t *testing.T) {
	authority, err := pki.Open(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	creds, err := issue(authority, Components{Scheduler})
	if err != nil {
		t.Fatal(err)
	}
	want, err := creds.restConfig(creds.clients[Scheduler], "https://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := writeKubeconfig(path, want); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600: it has the key in it", info.Mode(), err)
	}
	got, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != want.Host {
		t.Errorf("host %s, want %s", got.Host, want.Host)
	}
	if diff := cmp.Diff(want.TLSClientConfig, got.TLSClientConfig); diff != "" {
		t.Error(diff)
	}
}

// TestIdentities: the API server's built-in policy knows the components by these names.
func TestIdentities(t *testing.T) {
	want := map[string]string{
		adminSpec().Group:                  "system:masters",
		clientSpec(Scheduler).User:         "system:kube-scheduler",
		clientSpec(ControllerManager).User: "system:kube-controller-manager",
	}
	for got, want := range want {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
