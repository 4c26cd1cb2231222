package snapshotter

import (
	"context"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/purser-csi/purser/internal/controllers/snapshotting"
	core "github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// gateGroups enables volume group snapshots (SN-F9).
const gateGroups featuregate.Feature = "CSIVolumeGroupSnapshot"

// enabledGroups is the older form of the gate (SN-F26).
const enabledGroups = "enable-volume-group-snapshots"

// groupKinds are what the API server must serve for groups.
var groupKinds = []schema.GroupVersionKind{
	groupv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshot"),
	groupv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshotContent"),
	groupv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshotClass"),
}

// followGroups adds the controller of group snapshots once the API server serves their kinds.
func followGroups(mgr manager.Manager, gates *cli.Gates, c *snapshotting.Controller) error {
	if !gates.Enabled(gateGroups) {
		return nil
	}
	return process.WhenServed(mgr, groupKinds, func(ctx context.Context) error { return c.Groups().AddTo(ctx, mgr) })
}

// takeGroups adds the controller of group snapshot contents once the API server serves their kinds,
// if the driver supports groups.
func (s *Snapshotter) takeGroups(ctx context.Context, run *sidecar.Work, cfg snapshotting.SidecarConfig) error {
	if !s.Gates.Enabled(gateGroups) {
		return nil
	}
	takes, err := run.Conn.TakesGroups(ctx, run.Driver)
	if err != nil || !takes {
		return err
	}
	groups := snapshotting.NewGroupSidecar(snapshotting.GroupSidecarConfig{
		SidecarConfig: cfg, Groups: run.Conn.GroupController(),
		Naming: core.Naming{Prefix: s.GroupPrefix, Length: s.GroupUUIDLength},
	})
	return process.WhenServed(run.Manager, groupKinds, func(context.Context) error { return groups.AddTo(run.Manager) })
}
