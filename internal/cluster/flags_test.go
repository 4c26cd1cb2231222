package cluster

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/cluster/pki"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestArguments(t *testing.T) {
	p := plan{
		cfg: Config{
			Controllers: []string{"one", "two"},
			Audit:       true,
			ExtraArgs:   map[Component][]string{Etcd: {"--extra=1", "--extra=2"}},
		},
		files: "DATA",
		creds: credentials{
			authority:      "CA",
			etcd:           pki.Pair{Cert: "ETCD.crt", Key: "ETCD.key"},
			server:         pki.Pair{Cert: "SERVER.crt", Key: "SERVER.key"},
			serviceAccount: "TOKENS.key",
		},
		ports: ports{Etcd: 1001, APIServer: 1002},
	}
	for _, component := range []Component{Etcd, APIServer, Scheduler, ControllerManager} {
		t.Run(string(component), func(t *testing.T) {
			got := strings.Join(p.arguments(component), "\n") + "\n"
			golden(t, filepath.Join("testdata", string(component)+".args"), got)
		})
	}
}

func TestNoAuditByDefault(t *testing.T) {
	for _, arg := range (plan{}).arguments(APIServer) {
		if strings.Contains(arg, "audit") {
			t.Errorf("%s, though it is not configured", arg)
		}
	}
}

func TestDurable(t *testing.T) {
	for _, arg := range (plan{cfg: Config{Durable: true}}).arguments(Etcd) {
		if strings.Contains(arg, "fsync") {
			t.Errorf("%s, though the data is to last", arg)
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; if that is wanted, run go test -update:\n%s", path, diff)
	}
}
