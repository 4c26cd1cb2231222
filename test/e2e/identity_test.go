package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/purser-csi/purser/test/e2e/audit"
)

// The provisioner works with exactly the permissions that it ships with.
func TestIdentity(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := newTestNamespace(t, s)
	b.passBy(t, "claim")
	end, err := s.Audit().Mark(t.Context())
	must(t, err)
	tally, err := s.Audit().Between(0, end)
	must(t, err)

	ours := tally.By(provisioner)
	created := audit.Request{User: provisioner, Verb: "create", Resource: "persistentvolumes"}
	if ours[created].All() == 0 {
		t.Errorf("no PersistentVolume was created by %s", provisioner)
	}
	if ours.Answered(401, 403) > 0 {
		t.Errorf("requests of %s were forbidden: %v", provisioner, ours)
	}
	volumes := tally.Where(func(r audit.Request) bool { return r.Verb == "create" && r.Resource == created.Resource })
	if others := volumes.All() - volumes.By(provisioner).All(); others > 0 {
		t.Errorf("%d PersistentVolumes were created by others: %v", others, volumes)
	}
}

// provisioner is the user name of the provisioner inside of `up`.
var provisioner = audit.ServiceAccount("purser-system", "csi-provisioner")

// The account of the provisioner is not allowed to take over the cluster.
func TestIdentityIsNotAdministrator(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, question := range []struct{ verb, resource, want string }{
		{"create", "persistentvolumes", "yes"},
		{"update", "persistentvolumeclaims", "yes"},
		{"delete", "nodes", "no"},
		{"get", "secrets", "yes"}, // a development cluster needs no Role for the secrets of its classes
		{"list", "secrets", "no"},
		{"patch", "persistentvolumeclaims", "no"},
		{"create", "clusterrolebindings.rbac.authorization.k8s.io", "no"},
		{"*", "*", "no"},
	} {
		// The exit code is 1 for no.
		answer, err := s.Kubectl(t.Context(), "auth", "can-i", question.verb, question.resource, "--as", provisioner)
		if err != nil {
			answer = err.Error()
		}
		lines := strings.Fields(answer)
		if len(lines) == 0 || lines[len(lines)-1] != question.want {
			t.Errorf("%s %s: %q, want %s", question.verb, question.resource, answer, question.want)
		}
	}
	if info, err := os.Stat(s.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the administrator's kubeconfig: %v, %v; want mode 0600", info, err)
	}
}
