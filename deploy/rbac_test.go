package deploy

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// rules are what a manifest allows, by "group/resource" ("/resource" for the core group), with the verbs in order.
func rules(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := RBAC.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]string{}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var role rbacv1.ClusterRole // a Role has the same rules
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return allowed
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			verbs := slices.Sorted(slices.Values(rule.Verbs))
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					allowed[group+"/"+resource] = strings.Join(verbs, " ")
				}
			}
		}
	}
}

// The role is upstream's: replacing the image in a running cluster must need no further permission, and ask for none.
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
	}
	if diff := cmp.Diff(want, rules(t, "rbac/csi-provisioner.yaml")); diff != "" {
		t.Errorf("(-upstream +ours):\n%s", diff)
	}
}
