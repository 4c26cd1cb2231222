package roles

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mistake is told with the flag, the value and what would do, in the words of people.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		args string
		want string
	}{
		{"csi-provisioner --worker-threads=-1", `--worker-threads="-1": must be a whole number that is not negative; see`},
		{"csi-provisioner --timeout=abc", `--timeout="abc": must be a duration, such as`},
		{"csi-provisioner --enable-pprof=maybe", `--enable-pprof="maybe": must be true or false`},
		{"csi-provisioner --kube-api-qps=many", `--kube-api-qps="many": must be a number`},
		{"csi-provisioner --kube-api-qps=NaN", "--kube-api-qps=NaN: must be a number that is not negative"},
		{"csi-provisioner --kube-api-burst=1.5", `--kube-api-burst="1.5": must be a whole number`},
		{"csi-provisioner --http-endpoint=here", `--http-endpoint="here": must be HOST:PORT or :PORT`},
		{"csi-provisioner --metrics-address=:99999", `--metrics-address=":99999": "99999" is not a port; give a number from 0 to 65535`},
		{"controllers --http-endpoint=:99999", `--http-endpoint=":99999": "99999" is not a port`},
		{"up --http-endpoint=[::1", `--http-endpoint="[::1": must be`},
	} {
		err := Execute(t.Context(), Program{Name: "purser", Args: strings.Fields(tc.args), Out: io.Discard, Err: io.Discard})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("purser %s: %v, want %q", tc.args, err, tc.want)
		}
	}
}

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
		if _, err := (&apiAccess{Kubeconfig: path}).find(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	t.Setenv("KUBECONFIG", "/is/not/there") // EN-1
	if _, err := (&apiAccess{Kubeconfig: prose}).find(); err == nil || !strings.HasPrefix(err.Error(), "KUBECONFIG: ") {
		t.Errorf("KUBECONFIG: %v", err)
	}
}
