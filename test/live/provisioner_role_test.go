package live

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/test/rolestest"
)

// liveProvisioner returns a provisioner with fast leader election, and with HTTP on a free port.
func liveProvisioner(t *testing.T, api *rest.Config, socket string, args ...string) (p *provisioner.Provisioner, address func() string) {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	p, err := parseProvisioner(t, append([]string{
		"--csi-address=" + socket, "--leader-election", "--leader-election-namespace=default", "--http-endpoint=127.0.0.1:0",
		"--leader-election-lease-duration=9s", "--leader-election-renew-deadline=8s", "--leader-election-retry-period=500ms",
	}, args...)...)
	if err != nil || p.Validate() != nil {
		t.Fatal(err, p.Validate())
	}
	p.Version, p.API, p.Log = "test", api, (&rolestest.Log{}).Logger()
	where := make(chan net.Addr, 1)
	p.Listened = func(a net.Addr) { where <- a }
	return p, sync.OnceValue(func() string { return fmt.Sprintf("http://%s", <-where) })
}
