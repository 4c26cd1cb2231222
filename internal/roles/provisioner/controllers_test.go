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
	var entries []registry.Entry
	for _, c := range append(all(), controller{optional: ofRole}) {
		for _, o := range c.optional {
			c.Grants = append(slices.Clone(c.Grants), o.grants...)
		}
		entries = append(entries, c.Entry)
	}
	declared := registry.Permissions(entries)
	for _, p := range declared {
		if !slices.Contains(shipped, p) && !slices.Contains(optionalRules(t, p.Resource), p) {
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

// optionalRules returns the permissions in the optional manifest for a resource.
func optionalRules(t *testing.T, resource string) (all []process.Permission) {
	t.Helper()
	if optionalManifests[resource] == "" {
		return nil
	}
	file, err := os.Open(filepath.Join("..", "..", "..", optionalManifests[resource]))
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
		{[]string{"--node-deployment"}, "[get list update create]"},
		{[]string{reaper}, "[list delete]"}, // it has no journal of its own
		{[]string{reaper, "--leader-election"}, "[get list delete update create]"},
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

// The names of entries are different, and each has all that a role must know.
func TestEntriesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range all() {
		if c.Name == "" || seen[c.Name] || len(c.Grants) == 0 || c.enabled == nil || c.add == nil || (c.Absent == "") != (c.capability == 0) {
			t.Errorf("entry %q is not complete, or there twice", c.Name)
		}
		seen[c.Name] = true
	}
}
