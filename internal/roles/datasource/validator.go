package datasource

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/purser-csi/purser/internal/datasource"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/telemetry"
)

// The names of the role, of its lease and of the source of its events, as upstream has them (DV-2, DV-4).
const (
	name  = "volume-data-source-validator"
	lease = "data-source-validator-leader"
)

// Validator is the role. It calls no driver, and runs once in a cluster.
type Validator struct{ sidecar.Common }

// New returns the role with the default of every setting.
func New() *Validator {
	v := &Validator{}
	v.Common = sidecar.NewCommon(sidecar.Kind{
		Name: name, LeasePrefix: lease, EventsPrefix: name, NoDriver: true, WorkersFlag: "worker-threads",
		Table: v.table, Retired: sidecar.RetiredLogFlags,
	})
	v.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return v
}

// Command returns the command volume-data-source-validator.
func Command(program cli.Program) *cobra.Command {
	v := New()
	v.Version = program.Version
	return cli.NewDropInCommand(program, v, &cobra.Command{
		Use:         name,
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Say which claims have a source that no populator serves",
		Long: `Emit an event on each claim whose data source is of a kind that no
VolumePopulator names.

It replaces upstream's volume-data-source-validator. One runs in a cluster. It
starts to work when the cluster has the custom resource VolumePopulator. Flags
can have one dash or two, as with upstream.`,
		Example: `  purser volume-data-source-validator --http-endpoint :8080`,
	})
}

// AddFlags binds every setting to its flag (DV-1).
func (v *Validator) AddFlags(f *pflag.FlagSet) { v.AddCommonFlags(f) }

// Validate implements cli.Role.
func (v *Validator) Validate() error { return v.ValidateCommon() }

// table lists the controller (DV-7).
func (v *Validator) table(_ context.Context, run *sidecar.Sidecar) ([]registry.Controller, error) {
	return []registry.Controller{{
		Name: datasource.Name, Needs: []schema.GroupVersionKind{kube.PopulatorKind}, Late: true,
		Absent: "the API server does not serve VolumePopulators; waiting for their custom resource, and checking no " +
			"claim until then",
		Grants: []registry.Grant{
			registry.Allow("", "persistentvolumeclaims", registry.Read...),
			registry.Allow(kube.PopulatorKind.Group, "volumepopulators", registry.Read...),
		},
		Fields: []*kube.Fields{claimFields},
		Add: func(ctx context.Context, settings reconcile.Settings) error {
			return datasource.New(datasource.Config{
				Settings: settings, Cached: run.Cached,
				Operations: telemetry.NewCounter(run.Registry, telemetry.MetricDataSources),
			}).AddTo(ctx, run.Manager)
		},
	}}, nil
}

// claimFields are the source of a claim, and whether it has its volume.
var claimFields = kube.Reads(func(from, to *corev1.PersistentVolumeClaim) {
	to.Spec.DataSourceRef, to.Spec.VolumeName = from.Spec.DataSourceRef, from.Spec.VolumeName
})
