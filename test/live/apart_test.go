package live

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/test/rolestest"
)

// protocols records the HTTP protocol of each answer, by resource and name.
type protocols struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (p *protocols) has(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[what]
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// leaseParts are the parts of Lease names that tell the journal from the lease of the election.
var leaseParts = []string{"purser-intents", "csi-purser"}

func (p *protocols) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil || r.Method == http.MethodGet {
			return response, err
		}
		what := path.Base(r.URL.Path)
		if i := slices.IndexFunc(leaseParts, func(part string) bool { return strings.HasPrefix(what, part) }); i >= 0 {
			what = leaseParts[i]
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen[what+" "+response.Proto] = true
		return response, nil
	})
}

// The journal and the lease have connections of their own, so that they do not wait behind requests
// for volumes.
func TestJournalAndLeaseHaveTheirOwnConnections(t *testing.T) {
	api := rolestest.LiveCluster(t)
	socket, _ := rolestest.LiveDriver(t)
	user, err := client.New(api, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	seen := protocols{seen: map[string]bool{}}
	watched := rest.CopyConfig(api)
	watched.Wrap(seen.wrap)
	role, _ := liveProvisioner(t, watched, socket)
	end := rolestest.InBackground(t, role.Run)
	claimVolume(t, user, "apart")
	rolestest.Eventually(t, "the provisioner has the answer to its volume", func() error {
		if !seen.has("persistentvolumes HTTP/2.0") { // the end of the role could cut it off
			return errors.New("not yet")
		}
		return nil
	})
	end()
	for _, want := range []string{"purser-intents HTTP/1.1", "csi-purser HTTP/1.1"} {
		if !seen.has(want) {
			t.Errorf("no %s among %v", want, seen.seen)
		}
	}
	for _, not := range []string{"leases HTTP/2.0", "purser-intents HTTP/2.0", "csi-purser HTTP/2.0"} {
		if seen.has(not) {
			t.Errorf("%s among %v", not, seen.seen)
		}
	}
}
