package live

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

// Metrics behind --metrics-secure: a caller without a token, one with a token and no permission, and one with
// both, reviewed by a real API server with the permissions of deploy/optional/metrics-secure.yaml.
func TestMetricsSecure(t *testing.T) {
	p := newLiveCluster(t)
	manifest, err := os.Open(filepath.Join("..", "..", "deploy", "optional", "metrics-secure.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer manifest.Close()
	if err := p.setup.Apply(t.Context(), manifest.Name(), manifest); err != nil {
		t.Fatal(err)
	}
	p.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1Name("prometheus"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "purser-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: process.SystemNamespace, Name: "csi-resizer"}},
	})
	d := &scriptedDriver{name: "secure.example.com"}
	a := attacher.New()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.AddFlags(f)
	if err := f.Parse([]string{"--csi-address=" + d.serve(t), "--http-endpoint=127.0.0.1:0", "--metrics-secure"}); err != nil {
		t.Fatal(err)
	}
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	where := make(chan net.Addr, 1)
	a.Version, a.API, a.Log = "test", p.as("csi-attacher"), (&rolestest.Log{}).Logger()
	a.Listened = func(at net.Addr) { where <- at }
	rolestest.InBackground(t, a.Run)
	url := "https://" + (<-where).String()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // a self-signed certificate
	}}
	for _, tc := range []struct {
		path, account string
		code          int
	}{
		{"/healthz", "", 200},
		{"/metrics", "", 401},
		{"/metrics", "csi-snapshotter", 403},
		{"/metrics", "csi-resizer", 200}, // whose account stands for that of Prometheus
	} {
		rolestest.Eventually(t, fmt.Sprintf("%s as %q", tc.path, tc.account), func() error {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+tc.path, http.NoBody)
			if err != nil {
				return err
			}
			if tc.account != "" {
				request.Header.Set("Authorization", "Bearer "+p.as(tc.account).BearerToken)
			}
			answer, err := client.Do(request)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if answer.StatusCode != tc.code {
				return fmt.Errorf("%d, want %d", answer.StatusCode, tc.code)
			}
			return nil
		})
	}
}
