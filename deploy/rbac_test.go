package deploy

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// rules are what a manifest allows, by "group/resource" ("/resource" for the core group), with the
// verbs in order.
func rules(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := RBAC.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]string{}
	for _, object := range rbacObjects(t, text) {
		maps.Copy(allowed, object.allows())
	}
	return allowed
}

// rbacObject is a role or a binding of a manifest.
type rbacObject struct {
	rbacv1.ClusterRole `json:",inline"` // a Role has the same rules
	Subjects           []rbacv1.Subject `json:"subjects"`
	RoleRef            rbacv1.RoleRef   `json:"roleRef"`
}

func rbacObjects(t *testing.T, manifest []byte) (all []rbacObject) {
	t.Helper()
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
		var object rbacObject
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
}

// allows are the rules of a role, as in [rules].
func (o rbacObject) allows() map[string]string {
	allowed := map[string]string{}
	for _, rule := range o.Rules {
		verbs := strings.Join(slices.Sorted(slices.Values(rule.Verbs)), " ")
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				allowed[group+"/"+resource] = verbs
			}
		}
	}
	return allowed
}

// The roles of a development cluster may get secrets by name, and neither list nor watch them.
func TestDevelopmentSecrets(t *testing.T) {
	var role rbacv1.ClusterRole
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(DevelopmentSecrets), 4096).Decode(&role); err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Error(diff)
	}
	for _, file := range []string{"rbac", "optional", "chart/templates"} {
		files, err := filepath.Glob(filepath.Join(file, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if text, err := os.ReadFile(name); err != nil || strings.Contains(string(text), role.Name) {
				t.Errorf("%s has the role of development clusters: %v", name, err)
			}
		}
	}
}

// What is optional for the provisioner is so for `purser plane`, which has an account of its own.
func TestOptionalRulesAreForThePlaneToo(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("optional", "csi-provisioner-*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var accounts []string
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same subjects
			if err := decoder.Decode(&binding); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			for _, subject := range binding.Subjects {
				accounts = append(accounts, subject.Namespace+"/"+subject.Name)
			}
		}
		if diff := cmp.Diff([]string{"purser-system/csi-provisioner", "purser-system/plane"}, accounts); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

// The role is upstream's: replacing the image in a running cluster must need no further permission,
// and ask for none.
func TestProvisionerRoleIsUpstreams(t *testing.T) {
	want := map[string]string{
		"/persistentvolumes":               "create delete get list patch watch",  // RB-1
		"/persistentvolumeclaims":          "get list update watch",               // RB-2
		"storage.k8s.io/storageclasses":    "get list watch",                      // RB-3
		"/events":                          "create list patch update watch",      // RB-4
		"/nodes":                           "get list watch",                      // RB-6
		"storage.k8s.io/csinodes":          "get list watch",                      // RB-6
		"storage.k8s.io/volumeattachments": "get list watch",                      // RB-7
		"coordination.k8s.io/leases":       "create delete get list update watch", // RB-11

		"snapshot.storage.k8s.io/volumesnapshots": "get list update watch", // RB-5
		// RB-5: upstream has no watch. Without it a restore reads the content live.
		"snapshot.storage.k8s.io/volumesnapshotcontents": "get list watch",
		"storage.k8s.io/volumeattributesclasses":         "get", // RB-10: upstream calls it and lacks the rule
		// RB-11: with --enable-capacity.
		"storage.k8s.io/csistoragecapacities": "create delete get list patch update watch",
		"/pods":                               "get",
		"apps/replicasets":                    "get",
	}
	if diff := cmp.Diff(want, rules(t, "rbac/csi-provisioner.yaml")); diff != "" {
		t.Errorf("(-upstream +ours):\n%s", diff)
	}
}

// RZ-R1: no permission beyond upstream's, and no PUT anywhere.
func TestResizerRoleIsUpstreams(t *testing.T) {
	want := map[string]string{
		"/persistentvolumes":                     "get list patch watch",
		"/persistentvolumeclaims":                "get list watch",
		"/persistentvolumeclaims/status":         "patch",
		"/pods":                                  "get list watch",
		"/events":                                "create list patch update watch",
		"storage.k8s.io/volumeattributesclasses": "get list watch",
		"coordination.k8s.io/leases":             "create delete get list update watch",
	}
	if diff := cmp.Diff(want, rules(t, "rbac/csi-resizer.yaml")); diff != "" {
		t.Errorf("(-upstream +ours):\n%s", diff)
	}
}

// SN-R1 and SN-R2, without groups and nodes, which are not worked on.
func TestSnapshotRolesAreUpstreams(t *testing.T) {
	const leases = "create delete get list update watch"
	for file, want := range map[string]map[string]string{
		"rbac/csi-snapshotter.yaml": {
			"/events": "create list patch update watch",
			"snapshot.storage.k8s.io/volumesnapshotclasses":         "get list watch",
			"snapshot.storage.k8s.io/volumesnapshotcontents":        "get list patch update watch",
			"snapshot.storage.k8s.io/volumesnapshotcontents/status": "patch update",

			"groupsnapshot.storage.k8s.io/volumegroupsnapshotclasses":         "get list watch",
			"groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents":        "get list patch update watch",
			"groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents/status": "patch update",
			"coordination.k8s.io/leases":                                      leases,
		},
		"rbac/snapshot-controller.yaml": {
			"/persistentvolumes":      "get list watch",
			"/persistentvolumeclaims": "get list update watch",
			"/events":                 "create list patch update watch",
			"snapshot.storage.k8s.io/volumesnapshotclasses":         "get list watch",
			"snapshot.storage.k8s.io/volumesnapshotcontents":        "create delete get list patch update watch",
			"snapshot.storage.k8s.io/volumesnapshotcontents/status": "patch",
			"snapshot.storage.k8s.io/volumesnapshots":               "create delete get list patch update watch",
			"snapshot.storage.k8s.io/volumesnapshots/status":        "patch update",

			"groupsnapshot.storage.k8s.io/volumegroupsnapshotclasses":         "get list watch",
			"groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents":        "create delete get list patch update watch",
			"groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents/status": "patch",
			"groupsnapshot.storage.k8s.io/volumegroupsnapshots":               "get list patch update watch",
			"groupsnapshot.storage.k8s.io/volumegroupsnapshots/status":        "patch update",
			"coordination.k8s.io/leases":                                      leases,
		},
	} {
		if diff := cmp.Diff(want, rules(t, file)); diff != "" {
			t.Errorf("%s (-upstream +ours):\n%s", file, diff)
		}
	}
}

// RZ-R1, SN-R2, AT-R1: the roles of the sidecars beside the driver are upstream's, and the account
// is that of the driver's pod.
func TestRolesOfTheDriversSidecars(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("optional", "driver-sidecars.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const look, change = "get list watch", "get list patch watch"
	want := map[string]map[string]string{
		"purser-driver-resizer": {
			"/persistentvolumes": change, "/persistentvolumeclaims": look, "/persistentvolumeclaims/status": "patch", "/pods": look,
			"/events": "create list patch update watch", "storage.k8s.io/volumeattributesclasses": look,
		},
		"purser-driver-snapshotter": {
			"/events": "create list patch update watch",
			"snapshot.storage.k8s.io/volumesnapshotclasses": look, "snapshot.storage.k8s.io/volumesnapshotcontents": "get list patch update watch",
			"snapshot.storage.k8s.io/volumesnapshotcontents/status":           "patch update",
			"groupsnapshot.storage.k8s.io/volumegroupsnapshotclasses":         look,
			"groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents":        "get list patch update watch",
			"groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents/status": "patch update",
		},
		"purser-driver-attacher": {
			"/persistentvolumes": change, "storage.k8s.io/csinodes": look,
			"storage.k8s.io/volumeattachments": change, "storage.k8s.io/volumeattachments/status": "patch",
		},
	}
	got, bound := map[string]map[string]string{}, map[string]string{}
	for _, object := range rbacObjects(t, text) {
		for _, subject := range object.Subjects {
			bound[object.RoleRef.Name] = subject.Namespace + "/" + subject.Name
		}
		if len(object.Rules) > 0 {
			got[object.Name] = object.allows()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for role := range want {
		if bound[role] != "purser-system/csi-provisioner" {
			t.Errorf("%s is bound to %q", role, bound[role])
		}
	}
}

// AT-R1: no permission beyond upstream's, and none for events.
func TestAttacherRoleIsUpstreams(t *testing.T) {
	want := map[string]string{
		"/persistentvolumes":                      "get list patch watch",
		"storage.k8s.io/csinodes":                 "get list watch",
		"storage.k8s.io/volumeattachments":        "get list patch watch",
		"storage.k8s.io/volumeattachments/status": "patch",
		"coordination.k8s.io/leases":              "create delete get list update watch",
	}
	if diff := cmp.Diff(want, rules(t, "rbac/csi-attacher.yaml")); diff != "" {
		t.Errorf("(-upstream +ours):\n%s", diff)
	}
}
