package provisioner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/test/rolestest"
)

// RB-12, U-51: a permission beyond upstream's role is checked only with the flag that needs it, and
// its manifest has exactly this permission.
func TestPermissionsOfFlags(t *testing.T) {
	for _, tc := range []struct{ row, flag, resource, manifest string }{
		{"RB-12 v1's lock", "--enable-leader-election", "endpoints", "csi-provisioner-endpoints.yaml"},
		{"U-51 labels of namespaces", "--driver-metadata=namespace-label:team", "namespaces", "csi-provisioner-namespaces.yaml"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			file, err := os.Open(filepath.Join("..", "..", "..", "deploy", "optional", tc.manifest))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var role rbacv1.ClusterRole // a Role has the same rules
			if err := yaml.NewYAMLOrJSONDecoder(file, 4096).Decode(&role); err != nil {
				t.Fatal(err)
			}
			if got := wantedVerbs(t, tc.resource, tc.flag); len(role.Rules) != 1 || !slices.Equal(got, role.Rules[0].Verbs) || !slices.Equal(role.Rules[0].Resources, []string{tc.resource}) {
				t.Errorf("wants %q, the manifest has %v", got, role.Rules)
			}
			log := &rolestest.Log{}
			p, err := parsed(t, tc.flag)
			if err != nil {
				t.Fatal(err)
			}
			check := checkOf(t, &sidecar.Sidecar{Config: &p.Config, Role: p.Role()})
			check.Log(log.Logger(), []process.Permission{{Resource: tc.resource, Verb: "get"}, {Resource: "persistentvolumes", Verb: "get"}})
			if lines := log.Lines(); len(lines) != 2 || !strings.Contains(lines[0], "deploy/optional/"+tc.manifest) || !strings.Contains(lines[1], "deploy/rbac/csi-provisioner.yaml") {
				t.Errorf("told %q", lines)
			}
			if got := wantedVerbs(t, tc.resource, "--leader-election", "--driver-metadata=label:team"); len(got) > 0 {
				t.Errorf("wants %q without the flag", got)
			}
		})
	}
}

// RB-4, RB-11: the verbs of upstream's role that Purser does not use are not checked, so a narrower
// role is complete.
func TestUnusedPermissionsAreNotChecked(t *testing.T) {
	for resource, want := range map[string]string{"events": "[create patch]", "leases": "[get create update]"} {
		if got := fmt.Sprint(wantedVerbs(t, resource, "--leader-election")); got != want {
			t.Errorf("%s: %s, want %s", resource, got, want)
		}
	}
}

// RB-8, U-42: the permission to read secrets is checked in the namespaces that classes of this
// driver name, and in no other.
func TestPermissionsForSecrets(t *testing.T) {
	class := func(driver string, parameters ...string) storagev1.StorageClass {
		c := storagev1.StorageClass{Provisioner: driver, Parameters: map[string]string{}}
		for i := 0; i < len(parameters); i += 2 {
			c.Parameters[parameters[i]] = parameters[i+1]
		}
		return c
	}
	const name, namespace = names.ParameterProvisionerSecretName, names.ParameterProvisionerSecretNamespace
	for row, tc := range map[string]struct {
		class storagev1.StorageClass
		want  string
	}{
		"RB-8 none":                     {class("csi.example"), "[]"},
		"RB-8 one namespace":            {class("csi.example", name, "s", namespace, "vault"), "[get secrets in namespace vault]"},
		"RB-8 the claim's":              {class("csi.example", name, "s", namespace, "${pvc.namespace}"), "[get secrets]"},
		"RB-8 another driver's":         {class("csi.other", name, "s", namespace, "vault"), "[]"},
		"RB-8 for every call":           {class("csi.example", names.ParameterSecretName, "s", names.ParameterSecretNamespace, "vault"), "[get secrets in namespace vault]"},
		"RB-8 the kubelet's alone":      {class("csi.example", names.ParameterNodeStageSecretName, "s", names.ParameterNodeStageSecretNamespace, "vault"), "[]"},
		"O-32 another one for deletion": {class("csi.example", name, "s", namespace, "a", names.OwnParameterDeletionSecretName, "s", names.OwnParameterDeletionSecretNamespace, "b"), "[get secrets in namespace a get secrets in namespace b]"},
		"RB-8 malformed":                {class("csi.example", name, "s"), "[]"},
	} {
		if got := fmt.Sprint(secretPermissions([]storagev1.StorageClass{tc.class}, "csi.example")); got != tc.want {
			t.Errorf("%s: %s, want %s", row, got, tc.want)
		}
	}
	log := &rolestest.Log{}
	check := process.PermissionCheck{Role: "csi-provisioner", Optional: optionalPermissions}
	check.Log(log.Logger(), []process.Permission{{Namespace: "vault", Resource: "secrets", Verb: "get"}})
	if lines := log.Lines(); len(lines) != 1 || strings.Contains(lines[0], "missing permission") || !strings.Contains(lines[0], "get secrets in namespace vault") {
		t.Errorf("U-42: logged %q", lines)
	}
}

func wantedVerbs(t *testing.T, resource string, args ...string) (verbs []string) {
	t.Helper()
	p, err := parsed(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	check := checkOf(t, &sidecar.Sidecar{Config: &p.Config, Role: p.Role()})
	for _, w := range check.Wanted {
		if w.Resource == resource {
			verbs = append(verbs, w.Verb)
		}
	}
	return verbs
}

// checkOf returns the check of permissions, without those for secrets.
func checkOf(t *testing.T, s *sidecar.Sidecar) process.PermissionCheck {
	t.Helper()
	s.Role.Check = nil
	checks, err := s.Checks(t.Context())
	if err != nil || len(checks) != 1 {
		t.Fatal(len(checks), err)
	}
	return checks[0]
}
