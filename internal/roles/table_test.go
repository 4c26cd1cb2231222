package roles

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/datasource"
	"github.com/purser-csi/purser/internal/roles/healthmonitor"
	"github.com/purser-csi/purser/internal/roles/node"
	"github.com/purser-csi/purser/internal/roles/populator"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
)

// tabled are the roles with a table of controllers.
func tabled() []sidecar.Role {
	return []sidecar.Role{
		controllers.New().Role(), provisioner.New().Role(), attacher.New().Role(), resizer.New().Role(),
		snapshotter.New().Role(), snapshotter.NewController().Role(), node.New().Role(), datasource.New().Role(),
		healthmonitor.New().Role(),
		populator.New().Role(),
	}
}

func rowsOf(t *testing.T, role sidecar.Role) []registry.Controller {
	t.Helper()
	rows, err := role.Table(t.Context(), &sidecar.Sidecar{Config: new(sidecar.NewConfig()), Role: role})
	if err != nil || len(rows) == 0 {
		t.Fatalf("%s: %d rows, %v", role.Name, len(rows), err)
	}
	return rows
}

// A row is all that a role must know of a controller: adding one is enough.
func TestRowsAreComplete(t *testing.T) {
	for _, role := range tabled() {
		seen := map[string]bool{}
		for _, c := range rowsOf(t, role) {
			switch {
			case c.Name == "" || seen[c.Name]:
				t.Errorf("%s: the row %q has no name, or is there twice", role.Name, c.Name)
			case c.Add == nil || len(c.Grants) == 0:
				t.Errorf("%s: the row %s has no grants, or does not say how it is built", role.Name, c.Name)
			case c.Late && len(c.Needs) == 0:
				t.Errorf("%s: the row %s is late for no kind", role.Name, c.Name)
			}
			seen[c.Name] = true
			for _, g := range c.Grants {
				if g.Resource == "" || len(g.Verbs) == 0 {
					t.Errorf("%s: the row %s grants %v", role.Name, c.Name, g)
				}
			}
		}
	}
}

// ofOthers are the rows of a role that another role's manifest covers.
var ofOthers = map[string][]string{"csi-snapshotter": {"snapshot-controller-snapshot", "snapshot-controller-group-snapshot"}}

// beyond are the permissions of upstream's roles that no row has, so that replacing an image needs no
// change. All roles but those without an upstream role have those of "".
var beyond = map[string][]registry.Grant{
	"": {
		registry.Allow("", "events", "list", "watch", "update"), // events are patched, and never read (RB-4)
		// the lease is read by its name, polled, and released (RB-11)
		registry.Allow("coordination.k8s.io", "leases", "list", "watch", "delete").In(namespace),
	},
	"csi-provisioner": { // a capacity is updated at the version that was read (RB-11)
		registry.Allow("storage.k8s.io", "csistoragecapacities", "patch").In(namespace),
	},
	"csi-snapshotter": { // contents are patched (SN-R1)
		registry.Allow(snapshots, "volumesnapshotcontents", "update"), registry.Allow(snapshots, "volumesnapshotcontents/status", "update"),
		registry.Allow(groups, "volumegroupsnapshotcontents", "update"), registry.Allow(groups, "volumegroupsnapshotcontents/status", "update"),
	},
	"snapshot-controller": { // they are patched (SN-R2)
		registry.Allow(snapshots, "volumesnapshotcontents", "update"), registry.Allow(snapshots, "volumesnapshots", "update"),
		registry.Allow(snapshots, "volumesnapshots/status", "update"), registry.Allow(groups, "volumegroupsnapshotcontents", "update"),
		registry.Allow(groups, "volumegroupsnapshots", "update"), registry.Allow(groups, "volumegroupsnapshots/status", "update"),
	},
}

const (
	namespace = process.SystemNamespace
	snapshots = "snapshot.storage.k8s.io"
	groups    = "groupsnapshot.storage.k8s.io"
)

// rule is a rule of a manifest, with the conditions under which it is needed; none for always.
type rule struct {
	registry.Grant
	when   []string
	always bool
}

// rulesOf merges the grants of a role by resource.
func rulesOf(t *testing.T, role sidecar.Role) (rules []rule) {
	t.Helper()
	t.Setenv("NAMESPACE", namespace)
	t.Setenv("POD_NAMESPACE", namespace)
	own := map[string]bool{}
	named := role.Name == "controllers" // each of which can be left out: a rule names those that need it
	merge := func(g registry.Grant, when string) {
		g.Verbs = inOrder(g.Verbs)
		i := slices.IndexFunc(rules, func(r rule) bool {
			return r.Group == g.Group && r.Resource == g.Resource && r.Namespace == g.Namespace &&
				(!named || slices.Equal(r.Verbs, g.Verbs))
		})
		if i < 0 {
			i, rules = len(rules), append(rules, rule{Grant: registry.Allow(g.Group, g.Resource).In(g.Namespace)})
		}
		r := &rules[i]
		r.always = r.always || when == ""
		if when != "" && !slices.Contains(r.when, when) {
			r.when = append(r.when, when)
		}
		for _, verb := range g.Verbs {
			if !slices.Contains(r.Verbs, verb) {
				r.Verbs = append(r.Verbs, verb)
			}
		}
	}
	rows := rowsOf(t, role)
	for _, c := range rows {
		if named {
			c.When = "for " + c.Name
		}
		for _, g := range c.Grants {
			if g.Manifest == "" && !slices.Contains(ofOthers[role.Name], c.Name) {
				merge(g, cmp.Or(g.When, c.When))
				own[permissionText(g)] = true
			}
		}
	}
	if !role.NoEvents {
		merge(registry.Events, "")
	}
	if role.Name != "node" && !role.NamedLease {
		merge(registry.Allow("coordination.k8s.io", "leases", "get", "update", "create").In(namespace), "")
	}
	if role.Name != "node" && role.Name != "controllers" && role.Name != populator.Name { // whose roles are not upstream's
		for _, g := range slices.Concat(beyond[""], beyond[role.Name]) {
			if g.Resource == "events" && role.NoEvents {
				continue
			}
			if own[permissionText(g)] {
				t.Errorf("%s: a row has %v, so it is not beyond the rows", role.Name, g)
			}
			merge(g, "upstream's")
		}
	}
	for i := range rules {
		rules[i].Verbs = inOrder(rules[i].Verbs)
		rules[i].always = rules[i].always || len(rules[i].when) == len(rows) && named
	}
	return rules
}

func inOrder(verbs []string) []string {
	order := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	return slices.SortedFunc(slices.Values(verbs), func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
}

func permissionText(g registry.Grant) string {
	return fmt.Sprint(registry.Permissions([]registry.Grant{g}))
}

// deploy/rbac is generated from the tables.
func TestReferenceManifests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "rbac", "*.yaml"))
	if err != nil || len(files) != len(tabled()) {
		t.Errorf("%d manifests for %d roles, %v", len(files), len(tabled()), err)
	}
	for _, role := range tabled() {
		comparePage(t, filepath.Join("..", "..", "deploy", "rbac", role.Name+".yaml"), manifestOf(role, rulesOf(t, role)))
	}
}

func manifestOf(role sidecar.Role, rules []rule) string {
	var cluster, local strings.Builder
	for _, r := range rules {
		b := &cluster
		if r.Namespace != "" {
			b = &local
		}
		if when := slices.DeleteFunc(slices.Clone(r.when), func(w string) bool { return w == "upstream's" }); !r.always {
			fmt.Fprintf(b, "  # Needed %s.\n", strings.Join(when, ", "))
		} else if r.Resource == "leases" {
			b.WriteString("  # Leader election.\n")
		}
		writeRule(b, r.Grant, "")
	}
	if secrets := secretsOf[role.Name]; secrets != "" {
		fmt.Fprintf(&cluster, "  # %s\n  # - apiGroups: [\"\"]\n  #   resources: [secrets]\n  #   verbs: [get]\n", secrets)
	}
	if role.NamedLease {
		lease := registry.Allow("coordination.k8s.io", "leases")
		local.WriteString("  # Leader election.\n")
		lease.Verbs = []string{"create"} // a creation cannot be limited to a name
		writeRule(&local, lease, "")
		lease.Verbs = []string{"get", "update"}
		writeRule(&local, lease, role.Lease(""))
	}
	text := "# What `purser ROLE` may do. Generated by `make generate` from the table of the role; changes here are lost." +
		aboutRole[role.Name] + "\n" + account + binding("ClusterRole", "", cluster.String())
	if local.Len() > 0 {
		text += binding("Role", "\n  namespace: NAMESPACE", local.String())
	}
	return strings.NewReplacer("ROLE", role.Name, "NAMESPACE", namespace).Replace(text)
}

func writeRule(b *strings.Builder, g registry.Grant, name string) {
	group := g.Group
	if group == "" {
		group = `""`
	}
	fmt.Fprintf(b, "  - apiGroups: [%s]\n    resources: [%s]\n", group, g.Resource)
	if name != "" {
		fmt.Fprintf(b, "    resourceNames: [%s]\n", name)
	}
	fmt.Fprintf(b, "    verbs: [%s]\n", strings.Join(g.Verbs, ", "))
}

const upstreams = "\n# It is the role that upstream's program ships with, so replacing the image needs no change here"

// aboutRole is the second sentence of a manifest.
var aboutRole = map[string]string{
	"csi-provisioner": upstreams + ", and two rules more: about\n" +
		"# VolumeAttributesClasses, and the watch of snapshots and their contents. Without the watch a restore reads them live.",
	"csi-attacher": upstreams + ".", "csi-resizer": upstreams + ".", "csi-snapshotter": upstreams + ".", "snapshot-controller": upstreams + ".",
	healthmonitor.Name:             "\n# It is the role of upstream's program for CSI 1.13, less the rules about nodes and pods that older ones need.",
	"volume-data-source-validator": "\n# It is the role that upstream's program ships with, and the rule about leases, which upstream's lacks.",
	"populator": "\n# It may do less than populators of upstream's library: it creates and deletes claims in its own namespace alone. The\n" +
		"# custom resource of the sources is in deploy/optional/populator-http.yaml.",
	"node": "\n# A kubelet reads the claims and volumes of its pods one by one, with the permissions of the Node authorizer; the agent\n" +
		"# watches them, so it needs its own role, and reads those of all nodes. For volumes that name a secret for the node it\n" +
		"# needs deploy/optional/node-secrets.yaml too.",
}

// secretsOf says which volumes need secrets.
var secretsOf = map[string]string{
	"csi-provisioner": "Needed for classes with secrets only, and better in single namespaces: deploy/optional/csi-provisioner-secrets.yaml.",
	"csi-attacher":    "Needed for drivers whose volumes name a secret for attaching.",
	"csi-resizer":     "Needed for drivers whose volumes name a secret for the expansion.",
	"csi-snapshotter": "Needed for drivers whose classes name a secret for snapshots.",
}

const account = `apiVersion: v1
kind: ServiceAccount
metadata:
  name: ROLE
  namespace: NAMESPACE
`

// binding returns a role with its rules, and its binding.
func binding(kind, in, rules string) string {
	return fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]s
metadata:
  name: purser-ROLE%[2]s
rules:
%[3]s---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sBinding
metadata:
  name: purser-ROLE%[2]s
subjects:
  - kind: ServiceAccount
    name: ROLE
    namespace: NAMESPACE
roleRef:
  kind: %[1]s
  name: purser-ROLE
  apiGroup: rbac.authorization.k8s.io
`, kind, in, rules)
}
