package controllers

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/binder"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/telemetry"
)

// drainTime is for the API requests in flight when the process is asked to end.
const drainTime = 20 * time.Second

// managerName is the field manager of this role's writes: the user agent up to the first slash.
const managerName = "purser-controllers"

// Run implements role.
func (c *Controllers) Run(ctx context.Context) error { return sidecar.Run(ctx, &c.Config, c.Role()) }

// Role returns the role as package sidecar runs it.
func (c *Controllers) Role() sidecar.Role {
	always := func(string) string { return Lease }
	return sidecar.Role{
		Name: "controllers", NoDriver: true, Lease: always, NamedLease: true, EventSource: always, Drain: drainTime,
		Table: c.table, Trim: detectForeignBinders,
		Begin: func(ctx context.Context, s *sidecar.Sidecar) error {
			if err := c.tracksUse(ctx, s); err != nil {
				return err
			}
			s.Registry.MustRegister(binder.NewStateCollector(s.Manager.GetCache(), s.Manager.Elected()))
			return nil
		},
	}
}

// table returns the rows of the controllers, of which those run that --controllers names.
func (c *Controllers) table(_ context.Context, s *sidecar.Sidecar) ([]registry.Controller, error) {
	on, err := c.Enabled()
	parts := &Parts{Sidecar: s, Queue: c.Queue, Attachments: c.Attachments, Snapshots: c.Snapshots}
	c.parts = parts
	if !c.KeepInUse {
		parts.ForceDetachAfter = c.ForceDetachAfter
	}
	rows := All(parts)
	for i := range rows {
		rows[i].Off = !on[rows[i].Name]
	}
	return rows, err
}

// detectForeignBinders has the cache transform notice other programs that bind claims.
func detectForeignBinders(
	ctx context.Context, s *sidecar.Sidecar, trim toolscache.TransformFunc,
) toolscache.TransformFunc {
	counter, log := telemetry.NewCounter(s.Registry, telemetry.MetricForeignBinders), logr.FromContextOrDiscard(ctx)
	return kube.DetectForeignBinders(kube.ForeignBinders{
		Manager: managerName, Since: time.Now(), Found: func(manager, claim string) {
			counter.WithLabelValues(manager).Inc()
			log.Error(nil, "another program binds claims too; switch one of the two off",
				"writer", manager, telemetry.KeyClaim, claim)
		},
	}, trim)
}
