package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNoAPIServerToFind(t *testing.T) {
	prose := filepath.Join(t.TempDir(), "prose")
	if err := os.WriteFile(prose, []byte("not a kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "")
	for path, want := range map[string]string{
		"/is/not/there": "--kubeconfig: open /is/not/there: no such file",
		prose:           "--kubeconfig=" + prose + ": no kubeconfig that can be used",
		"":              "give --kubeconfig when not running in a cluster",
	} {
		if _, err := (&APIAccess{Kubeconfig: path}).find(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	t.Setenv("KUBECONFIG", "/is/not/there") // EN-1
	if _, err := (&APIAccess{Kubeconfig: prose}).find(); err == nil || !strings.HasPrefix(err.Error(), "KUBECONFIG: ") {
		t.Errorf("KUBECONFIG: %v", err)
	}
}
