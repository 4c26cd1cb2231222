package controllers

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// GateUnusedSince is the gate of the condition Unused of claims (KEP-5541).
const GateUnusedSince featuregate.Feature = "PersistentVolumeClaimUnusedSinceTime"

// gateTable has the gates of kube-controller-manager with their stages: a condition or a field of a
// later Kubernetes is not written to an API server of an older one.
var gateTable = cli.GateTable{
	ByServer: map[featuregate.Feature]featuregate.VersionedSpecs{
		GateUnusedSince: {
			{Version: version.MajorMinor(1, 36), Default: false, PreRelease: featuregate.Alpha},
			{Version: version.MajorMinor(1, 37), Default: true, PreRelease: featuregate.Beta},
		},
	},
	Ignored: cli.LibraryGates,
}

// tracksUse decides whether the condition Unused of claims is kept up to date.
func (c *Controllers) tracksUse(ctx context.Context, s *sidecar.Sidecar) error {
	if on, err := c.Enabled(); err != nil || !on[NameClaimProtection] {
		return err
	}
	if c.Gates.Given(GateUnusedSince) {
		c.parts.TracksUse = c.Gates.Enabled(GateUnusedSince)
		return nil
	}
	server, err := process.ServerVersion(ctx, s.API)
	if err != nil {
		return err
	}
	c.parts.TracksUse = c.Gates.EnabledAt(GateUnusedSince, server)
	if !c.parts.TracksUse && server != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info(
			"the condition Unused of claims is off, as in kube-controller-manager of this version; "+
				"--feature-gates="+string(GateUnusedSince)+"=true turns it on", "version", server.String(),
		)
	}
	return nil
}
