package e2e

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// The next `up` on the folder has the same objects and volumes, until --fresh deletes them. The
// copy of the kubeconfig is private, works, and may be overwritten.
func TestFolder(t *testing.T) {
	t.Parallel()
	dir, copied := dataDir(t), filepath.Join(t.TempDir(), "kubeconfig")
	cfg := stage.Config{DataDir: dir, Args: []string{"--kubeconfig", copied}}
	s := start(t, cfg)
	b := newTestNamespace(t, s)
	claim := b.claim(t, "kept", "")
	b.awaitBound(t, claim)
	mustWork(t, copied)
	stop(t, s)

	b.Stage = start(t, cfg)
	pv := b.awaitBound(t, claim)
	if !exists(t, b.folder(claim)) {
		t.Errorf("%s is not on disk", pv.Name)
	}
	stop(t, b.Stage)

	cfg.Args = append(cfg.Args, "--fresh")
	b.Stage = start(t, cfg)
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}} {
		must(t, b.Client.List(t.Context(), list))
		if left := length(list); left != 0 {
			t.Errorf("--fresh left %d in %T", left, list)
		}
	}
	if n := folders(t, b.Stage); n > 0 {
		t.Errorf("--fresh left %d volumes on disk", n)
	}
	mustWork(t, copied)
	newTestNamespace(t, b.Stage).passBy(t, "claim")
}

func length(list client.ObjectList) int {
	switch l := list.(type) {
	case *corev1.PersistentVolumeClaimList:
		return len(l.Items)
	case *corev1.PersistentVolumeList:
		return len(l.Items)
	}
	return -1
}

func mustWork(t *testing.T, kubeconfig string) {
	t.Helper()
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v; want mode 0600", kubeconfig, info, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	api, err := client.New(config, client.Options{})
	must(t, err)
	must(t, api.List(t.Context(), &corev1.NamespaceList{}))
}
