package explain

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/roles/clusterflags"
)

// Several objects are answered in one call, and the exit code is the highest.
func TestSeveralObjects(t *testing.T) {
	for _, tc := range []struct {
		args  string
		code  int
		words []string
	}{
		{"pvc/b pv/pv", 0, []string{"pvc/b -n shop  well", "pv/pv  well"}},
		{"pvc/b pvc/c", 1, []string{"pvc/b -n shop  well", "pvc/c -n shop  stuck"}},
		{"pvc b c", 1, []string{"pvc/b -n shop  well", "pvc/c -n shop  stuck"}},
		{"pvc/c pvc/absent", 2, []string{"stuck", "cannot tell"}},
		{"pvc/b -l app=web", 2, nil},
		{"pvc/b -A", 2, nil},
		{"-l app==,", 2, nil},
		{"-l app=web", 0, []string{"Nothing is stuck"}},
		{"-A -n other", 1, []string{"ClassMissing"}},
		{"-l !app", 1, []string{"ClassMissing"}},
	} {
		namespace := []string{"-n", "shop"}
		if strings.Contains(tc.args, "-n") {
			namespace = nil
		}
		args := slices.Concat([]string{"explain", "--from", "-"}, namespace, strings.Fields(tc.args))
		out, code, err := run(t, args...)
		if code != tc.code || tc.words == nil && err == nil {
			t.Errorf("%s: exit code %d, want %d; %v: %s", tc.args, code, tc.code, err, out)
		}
		for _, words := range tc.words {
			if !strings.Contains(out, words) {
				t.Errorf("%s: %q is not in\n%s", tc.args, words, out)
			}
		}
	}
}

// A mistyped kind or name is answered with what may be meant.
func TestDidYouMean(t *testing.T) {
	for args, want := range map[string]string{
		"explain sc/othr --from -":                       "did you mean storageclass/other?",
		"explain pvc/c --from - -n other":                "did you mean pvc/c -n shop",
		"tree sc/othr --from -":                          "did you mean storageclass/other?",
		"explain storagclass/other --from -":             "did you mean storageclass?",
		"explain pvc/quite-another-one --from - -n shop": "there is no PersistentVolumeClaim",
	} {
		out, code, err := run(t, strings.Fields(args)...)
		if err != nil {
			out += err.Error()
		}
		if code != exitUnknown || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%s: exit code %d, %q is not in %s", args, code, want, out)
		}
		if strings.Contains(args, "quite-another-one") && strings.Contains(out, "mean") {
			t.Errorf("a name that is like no other: %s", out)
		}
	}
}

// The shell completes kinds, and names in the namespace.
func TestCompletion(t *testing.T) {
	dump := strings.Join([]string{stuckClaim, boundClaim, itsVolume, otherClass}, "\n---\n")
	for _, tc := range []struct {
		args  []string
		typed string
		want  []string
	}{
		{nil, "pv", []string{"pvc/", "pv/"}},
		{nil, "pvc/", []string{"pvc/c", "pvc/b"}},
		{nil, "pvc/b", []string{"pvc/b"}},
		{[]string{"pvc"}, "", []string{"c", "b"}},
		{[]string{"pvc/c"}, "storagec", []string{"storageclass/"}},
		{nil, "ship/", nil},
	} {
		s := &source{in: strings.NewReader(dump), from: []string{"-"}, Flags: clusterflags.Flags{Namespace: "shop"}}
		c := &cobra.Command{}
		c.SetContext(t.Context())
		if got, _ := s.complete(c, tc.args, tc.typed); !slices.Equal(got, tc.want) {
			t.Errorf("%q %q: %q, want %q", tc.args, tc.typed, got, tc.want)
		}
	}
}

// The flags of kubectl reach the API server: its address, and the user to read as.
func TestFlagsOfKubectl(t *testing.T) {
	var user string
	var groups []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, groups = r.Header.Get("Impersonate-User"), r.Header.Values("Impersonate-Group")
		http.Error(w, "{}", http.StatusForbidden)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "http://192.0.2.1"}}],
  contexts: [{name: x, context: {cluster: c, namespace: shop}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"explain", "pvc/c", "--kubeconfig", kubeconfig, "--context", "x", "--server", server.URL}
	_, code, _ := run(t, append(base, "--as", "dev", "--as-group", "a", "--as-group", "b", "--request-timeout", "5s")...)
	if code != exitUnknown || user != "dev" || !slices.Equal(groups, []string{"a", "b"}) {
		t.Errorf("exit code %d, user %q, groups %q", code, user, groups)
	}
	for _, bad := range [][]string{{"--request-timeout", "soon"}, {"--as-group", "a"}, {"--context", "none"}} {
		if _, code, err := run(t, append(slices.Clone(base), bad...)...); code != exitUnknown || err == nil {
			t.Errorf("%q: exit code %d, %v", bad, code, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := (&source{Flags: clusterflags.Flags{Kubeconfig: kubeconfig}}).read(ctx); err == nil {
		t.Error("a cancelled read is no error")
	}
}
