package explain

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/roles/clusterflags"
	"github.com/purser-csi/purser/internal/telemetry"
)

func rolePod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other"}, {Args: args}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func TestRingPort(t *testing.T) {
	for want, args := range map[string][][]string{
		"8080": {
			{"csi-provisioner", "--purser-life", "--http-endpoint=:8080"},
			{"--purser-life=true", "--http-endpoint", "0.0.0.0:8080"},
		},
		"": {
			{"--http-endpoint=:8080"},
			{"--purser-life"},
			{"--purser-life=false", "--http-endpoint=:8080"},
			{"--purser-life", "--http-endpoint=127.0.0.1:8080"},
			{"--purser-life", "--http-endpoint=localhost:8080"},
			{"--purser-life", "--http-endpoint=$(ADDRESS)"},
			nil,
		},
	} {
		for _, one := range args {
			if got := ringPort(rolePod("p", one...)); got != want {
				t.Errorf("%q: port %q, want %q", one, got, want)
			}
		}
	}
	ended := rolePod("p", "--purser-life", "--http-endpoint=:8080")
	ended.Status.Phase = corev1.PodSucceeded
	if ringPort(ended) != "" {
		t.Error("a pod that has ended is asked")
	}
}

// A role that hangs, one that sends without an end and one that is gone do not hang a dump; the others are
// in it, those of pods by way of the API server.
func TestRings(t *testing.T) {
	spans := telemetry.NewSpans("test")
	spans.Add(telemetry.Span{Name: "CreateVolume", Code: "OK", Volume: "pvc-1"})
	var asked, credentials atomic.Value // of handlers
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Path)
		if r.Header.Get("Authorization") != "Bearer t" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		spans.ServeHTTP(w, r)
	}))
	defer api.Close()
	role := httptest.NewServer(spans)
	defer role.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		credentials.Store(r.Header.Get("Authorization"))
		<-r.Context().Done()
	}))
	defer hangs.Close()
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for line := []byte(`{"spans":[` + strings.Repeat(" ", 1<<16)); ; line = bytes.Repeat([]byte(" "), 1<<16) {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	var notes strings.Builder
	o := dumpOptions{
		source:    source{notes: &notes, Flags: clusterflags.Flags{API: &rest.Config{Host: api.URL, BearerToken: "t"}}},
		endpoints: Endpoints{URLs: []string{hangs.URL, endless.URL, gone.URL, role.URL}}, patience: 3 * time.Second, out: io.Discard,
	}
	began := time.Now()
	found := o.rings(t.Context(), []client.Object{
		rolePod("provisioner-0", "--purser-life", "--http-endpoint=:8080"),
		rolePod("attacher-0", "--purser-life", "--http-endpoint=:8080", "--metrics-secure"),
	})
	if took := time.Since(began); took > 2*o.patience {
		t.Errorf("it took %s", took)
	}
	var names []string
	for _, r := range found {
		names = append(names, r.name)
		if len(r.spans) != 1 {
			t.Errorf("%s: %+v", r.name, r.spans)
		}
	}
	if want := fmt.Sprintf("[%s csi/provisioner-0]", strings.TrimPrefix(role.URL, "http://")); fmt.Sprint(names) != want {
		t.Errorf("%v, want %s", names, want)
	}
	if want := "/api/v1/namespaces/csi/pods/provisioner-0:8080/proxy" + telemetry.PathSpans; asked.Load() != want {
		t.Errorf("asked %v, want %s", asked.Load(), want)
	}
	if n := strings.Count(notes.String(), "is not in the dump"); n != 4 || credentials.Load() != "" ||
		!strings.Contains(notes.String(), "attacher-0 did last is not in the dump: it serves with --metrics-secure") {
		t.Errorf("%d notes, credentials %v: %s", n, credentials.Load(), notes.String())
	}
}

// What roles did last takes a part of a dump's size, the newest first; many roles are not asked.
func TestRingsAreBounded(t *testing.T) {
	r := &ring{name: "r"}
	for i := range 4096 {
		r.spans = append(r.spans, telemetry.Span{Name: fmt.Sprint("n", i), Volume: strings.Repeat("v", 100)})
	}
	items := itemsOf([]*ring{r}, 1<<20)
	kept, _ := items[0]["spans"].([]telemetry.Span)
	if len(kept) == 0 || len(kept) > 1000 || kept[len(kept)-1].Name != "n4095" {
		t.Errorf("%d spans", len(kept))
	}
	var notes strings.Builder
	o := dumpOptions{source: source{notes: &notes}, patience: time.Second}
	for range mostRings + 1 {
		o.endpoints.URLs = append(o.endpoints.URLs, "http://127.0.0.1:0")
	}
	if o.rings(t.Context(), nil); !strings.Contains(notes.String(), "only 32 of 33") {
		t.Error(notes.String())
	}
}

// explain and life read what roles did last from a dump, another dump keeps it, and one without names does
// not have it.
func TestSpansOfDump(t *testing.T) {
	const spans = `{apiVersion: purser.spans/v1, kind: Spans, metadata: {name: csi/provisioner-0}, spans: [
  {from: "2026-01-01T00:00:01Z", to: "2026-01-01T00:00:16Z", role: csi-provisioner, name: CreateVolume,
   code: DeadlineExceeded, volume: pvc-u},
  {from: "2026-01-01T00:00:02Z", to: "2026-01-01T00:00:02Z", role: claims, name: Provisioning, object: shop/c},
  {from: "2026-01-01T00:00:03Z", to: "2026-01-01T00:00:04Z", role: r, name: DeleteVolume, code: OK, volume: "other\e[2J"}]}`
	path := filepath.Join(t.TempDir(), "dump.yaml")
	text := strings.Join([]string{stuckClaim, boundClaim, itsVolume, otherClass, spans}, "\n---\n")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, has, lacks string }{
		{"explain pvc/b -n shop", "CreateVolume: DeadlineExceeded after 15.0s, csi-provisioner", "DeleteVolume"},
		{"explain pv/pv", "CreateVolume", "Provisioning"},
		{"explain pvc/c -n shop", "Provisioning: decided, claims", "CreateVolume"},
		{"explain pvc/b -n shop -o json", `"code": "DeadlineExceeded"`, "DeleteVolume"},
		{"life pvc/b -n shop -o json", `"lane": "driver"`, "DeleteVolume"},
		{"dump", `"code": "DeadlineExceeded"`, "\x1b"},
		{"dump --hide-names", `"kind": "List"`, "DeadlineExceeded"},
	} {
		args := append(strings.Fields(tc.args), "--from", path, "--now", "2026-01-01T00:01:00Z")
		out, _, _ := run(t, args...)
		if !strings.Contains(tc.args, "json") {
			out = strings.Join(strings.Fields(out), " ")
		}
		if !strings.Contains(out, tc.has) || strings.Contains(out, tc.lacks) {
			t.Errorf("%s: %s", tc.args, out)
		}
	}
}
