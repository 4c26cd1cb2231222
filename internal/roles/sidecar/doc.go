// Package sidecar runs a role: it connects to the CSI driver, if the role has one, elects a leader,
// serves metrics and health, trims the cache, checks the permissions, and adds the controllers of the
// role's table and of the roles that it hosts:
//
//	func (r *Resizer) Run(ctx context.Context) error {
//		return sidecar.Run(ctx, &r.Config, sidecar.Role{
//			Name: "csi-resizer", Lease: leaseName, EventSource: eventSource, Drain: r.drainTime(), Table: r.table,
//		})
//	}
//
// The role binds the shared flags with [Connection.AddFlags], [process.APIAccess.AddFlags],
// [process.Election.AddFlags], [process.HTTPSettings.AddSidecarFlags] and [cli.LoggingFlags], each
// under a title of the help page; [Config.ValidateShared] checks them. The rows of the table are built
// from the fields of [Sidecar]; which controllers there are is not known here.
//
// A role without controllers, such as livenessprobe, embeds [Standalone] and runs by
// [Standalone.Serve].
package sidecar
