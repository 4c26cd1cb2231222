package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
	"github.com/purser-csi/purser/test/rolestest"
)

// U-11, AT-R1, RZ-R1, SN-R1, SN-R2: with upstream's role nothing is missing, and each rule that is taken
// away is reported with its verbs and its manifest.
func TestPermissionsOfTheSidecars(t *testing.T) {
	api := rolestest.LiveCluster(t)
	admin, err := client.New(api, client.Options{Scheme: rolestest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := (bootstrap.Setup{Admin: api, Client: admin}).ApplyRoles(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, r, s, c := attacher.New(), resizer.New(), snapshotter.New(), snapshotter.NewController()
	for _, common := range []*sidecar.Common{&a.Common, &r.Common, &s.Common, &c.Common} {
		common.Election.Enabled, common.Election.Namespace = true, process.SystemNamespace
		role := common.Role()
		t.Run(role.Name, func(t *testing.T) {
			as := rest.CopyConfig(api)
			as.Impersonate = rest.ImpersonationConfig{
				UserName: "system:serviceaccount:" + process.SystemNamespace + ":" + role.Name,
			}
			run := &sidecar.Sidecar{API: as, Config: &common.Config, Role: role, Driver: csirpc.Description{
				Name: "d", Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{
					csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: true,
					csi.ControllerServiceCapability_RPC_EXPAND_VOLUME:            true,
					csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT:   true,
				},
			}}
			checks, err := run.Checks(t.Context())
			if err != nil || len(checks) != 1 {
				t.Fatal(len(checks), err)
			}
			awaitMissing(t, as, checks[0], nil)
			var whole rbacv1.ClusterRole
			key := client.ObjectKey{Name: "purser-" + role.Name}
			if err := admin.Get(t.Context(), key, &whole); err != nil {
				t.Fatal(err)
			}
			for i := range whole.Rules {
				lost := process.PermissionsOf(whole.Rules[i], "")
				lost = slices.DeleteFunc(lost, func(p process.Permission) bool { return !slices.Contains(checks[0].Wanted, p) })
				if len(lost) == 0 {
					t.Errorf("nothing of the rule for %v is asked for", whole.Rules[i].Resources)
				}
				less := whole.DeepCopy()
				less.Rules = slices.Delete(less.Rules, i, i+1)
				replaceRole(t, admin, less)
				awaitMissing(t, as, checks[0], lost)
				log := &rolestest.Log{}
				process.CheckPermissions(rolestest.WithLogger(t, log), as, checks, nil)
				for n, line := range log.Lines() {
					if !strings.Contains(line, "missing permission: "+lost[n].String()) ||
						!strings.Contains(line, "deploy/rbac/"+role.Name+".yaml") {
						t.Errorf("logged %q for %s", line, lost[n])
					}
				}
				if len(log.Lines()) != len(lost) {
					t.Errorf("logged %q for %v", log.Lines(), lost)
				}
			}
			replaceRole(t, admin, &whole)
			awaitMissing(t, as, checks[0], nil)
		})
	}
}

func replaceRole(t *testing.T, admin client.Client, role *rbacv1.ClusterRole) {
	t.Helper()
	role.ResourceVersion = ""
	if err := admin.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
}

// awaitMissing waits until the account lacks exactly these permissions.
func awaitMissing(t *testing.T, as *rest.Config, check process.PermissionCheck, want []process.Permission) {
	t.Helper()
	byText := func(all []process.Permission) (texts []string) {
		for _, p := range all {
			texts = append(texts, p.String())
		}
		slices.Sort(texts)
		return texts
	}
	rolestest.Eventually(t, "the account lacks "+fmt.Sprint(want), func() error {
		missing, err := process.MissingPermissions(t.Context(), as, check.Wanted)
		if err != nil || !slices.Equal(byText(missing), byText(want)) {
			return fmt.Errorf("lacks %v, %w", missing, err)
		}
		return nil
	})
}
