package provisioner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
	"github.com/purser-csi/purser/test/rolestest"
)

// U-11: each missing permission is logged once, and permissions that are not needed are not
// checked.
func TestPermissionsAtStart(t *testing.T) {
	api := rolestest.LiveCluster(t)
	admin, err := client.New(api, client.Options{Scheme: rolestest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	f := bootstrap.Setup{Admin: api, Client: admin}
	if err := f.ApplyRoles(t.Context()); err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(api)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + process.SystemNamespace + ":csi-provisioner"}
	p, err := parsed(t, "--leader-election", "--leader-election-namespace="+process.SystemNamespace)
	if err != nil {
		t.Fatal(err)
	}
	w := &sidecar.Sidecar{API: as, Config: &p.Config, Role: p.Role()}
	check := checkOf(t, w)
	wanted := check.Wanted
	if slices.ContainsFunc(wanted, func(p process.Permission) bool { return p.Resource == "volumeattachments" || p.Resource == "csinodes" }) {
		t.Error("asks for what a driver without topology and attachment does not need")
	}
	rolestest.Eventually(t, "the shipped role is enough", func() error { // it is enforced some time after it is written
		missing, err := process.MissingPermissions(t.Context(), as, wanted)
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("it lacks %v", missing)
		}
		return err
	})

	var role rbacv1.ClusterRole
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "purser-csi-provisioner"}, &role); err != nil {
		t.Fatal(err)
	}
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, "persistentvolumes") {
			role.Rules[i].Verbs = slices.DeleteFunc(role.Rules[i].Verbs, func(v string) bool { return v == "patch" })
		}
	}
	if err := admin.Update(t.Context(), &role); err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "the missing verb is named", func() error {
		missing, err := process.MissingPermissions(t.Context(), as, wanted)
		if err != nil || len(missing) != 1 || missing[0].String() != "patch persistentvolumes" {
			return fmt.Errorf("missing %v, %w", missing, err)
		}
		return nil
	})
	log := &rolestest.Log{}
	process.CheckPermissions(rolestest.WithLogger(t, log), as, []process.PermissionCheck{check}, nil)
	if lines := log.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "missing permission: patch persistentvolumes") {
		t.Errorf("logged %q", lines)
	}
}
