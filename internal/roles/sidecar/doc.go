// Package sidecar runs a role that serves one CSI driver. It connects to the driver, elects a
// leader, serves metrics and health, and hands the parts to the role, which adds its controllers:
//
//	type Resizer struct {
//		sidecar.Config
//		Workers uint
//	}
//
//	func (r *Resizer) Run(ctx context.Context) error {
//		return sidecar.Run(ctx, &r.Config, sidecar.Role{
//			Name: "csi-resizer", Lease: leaseName, EventSource: eventSource, Trim: trim, Drain: r.drainTime(),
//			Add: func(ctx context.Context, s *sidecar.Sidecar) error { return r.add(ctx, s) },
//		})
//	}
//
// The role binds the shared flags with [Connection.AddFlags], [process.APIAccess.AddFlags],
// [process.Election.AddFlags], [process.HTTPSettings.AddSidecarFlags] and [cli.LoggingFlags], each
// under a title of the help page; [Config.ValidateShared] checks them. The controllers are built
// from the fields of [Sidecar]; they are not known here.
package sidecar
