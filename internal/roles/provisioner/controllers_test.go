package provisioner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// notNeeded are the permissions of upstream's role that no entry has, with the reason.
var notNeeded = map[string]string{
	"list events": "events are written and never read (RB-4)", "watch events": "as list", "update events": "as list; events are patched",
	"watch leases.coordination.k8s.io":          "the lease is polled (RB-11)",
	"patch csistoragecapacities.storage.k8s.io": "a capacity is updated at the version that was read (RB-11)",
}

// RB-1 to RB-12: the role has the permissions that the entries declare, and each of its permissions
// is one that an entry declares, or has a reason. A permission beyond the role has a manifest.
func TestRoleIsWhatTheEntriesNeed(t *testing.T) {
	shipped, err := process.ShippedPermissions("csi-provisioner", "")
	if err != nil {
		t.Fatal(err)
	}
	grants := append(registry.Grants((&parts{builder: &builder{&sidecar.Sidecar{}, New()}}).table()), registry.Events)
	manifests := map[string]string{}
	for i := range grants {
		grants[i].Unneeded, grants[i].Namespace = false, ""
		manifests[grants[i].Resource] = grants[i].Manifest
	}
	declared := registry.Permissions(grants)
	for _, p := range declared {
		if !slices.Contains(shipped, p) && !slices.Contains(optionalRules(t, manifests[p.Resource]), p) {
			t.Errorf("an entry has the permission to %s, which no manifest gives", p)
		}
	}
	for _, p := range shipped {
		_, hasReason := notNeeded[p.String()]
		if slices.Contains(declared, p) == hasReason {
			t.Errorf("the shipped role has the permission to %s: either an entry or a reason must be there, and not both", p)
		}
	}
}

// optionalRules returns the permissions in an optional manifest.
func optionalRules(t *testing.T, manifest string) (all []process.Permission) {
	t.Helper()
	if manifest == "" {
		return nil
	}
	file, err := os.Open(filepath.Join("..", "..", "..", manifest))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var role rbacv1.ClusterRole // a Role has the same rules
	if err := yaml.NewYAMLOrJSONDecoder(file, 4096).Decode(&role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		all = append(all, process.PermissionsOf(rule, "")...)
	}
	return all
}

// RB-11, X-14, N-12: the journals of other nodes are listed with one instance per node, and those of
// removed nodes are deleted by the reaper, so both verbs are checked there.
func TestPermissionsForJournalsOfNodes(t *testing.T) {
	const reaper = "--purser-reap-removed-nodes=" + reapForget
	for _, tc := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--node-deployment"}, "[get list create update]"},
		{[]string{reaper}, "[list delete]"}, // it has no journal of its own
		{[]string{reaper, "--leader-election"}, "[get list create update delete]"},
	} {
		if got := fmt.Sprint(wantedVerbs(t, "leases", tc.flags...)); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.flags, got, tc.want)
		}
	}
	if got := wantedVerbs(t, "persistentvolumes", reaper); slices.Contains(got, "create") {
		t.Errorf("the reaper, which creates no volumes, asks for %q", got)
	}
}

// RB-11: what a controller needs is not checked where the driver makes it impossible.
func TestNoPermissionsForWhatTheDriverCannotDo(t *testing.T) {
	t.Setenv(envNamespace, "ns")
	if got := wantedVerbs(t, "csistoragecapacities", "--enable-capacity", "--capacity-ownerref-level=-1"); len(got) > 0 {
		t.Errorf("without GET_CAPACITY: %q", got)
	}
}
