package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/telemetry"
)

// NothingToDo is the error of a table whose driver lacks all that the role needs. It ends a role by
// itself. A hosted role is left out, and Hosted is logged.
type NothingToDo struct{ Alone, Hosted string }

// Error implements error.
func (e NothingToDo) Error() string { return e.Alone }

// table has the controllers of one role that run, and the settings of that role.
type table struct {
	role   string
	config *Config
	source string // of the events; empty for that of the sidecar
	silent bool   // the role writes no events
	rows   []registry.Controller
	again  Table // lists the rows of a hosted role that could not be listed yet; nil if they are listed
}

// findTables lists the controllers of the role and of the hosted ones.
func (s *Sidecar) findTables(ctx context.Context) error {
	rows, err := s.Role.Table(ctx, s)
	if err != nil {
		return err
	}
	s.tables = []*table{{role: s.Role.Name, config: s.Config, silent: s.Role.NoEvents, rows: rows}}
	for _, c := range s.Config.Hosted {
		nothing := NothingToDo{}
		t := &table{
			role: c.kind.Name, config: &c.Config, source: c.kind.EventsPrefix + s.Driver.Name,
			silent: c.kind.NoEvents,
		}
		t.rows, err = c.kind.Table(ctx, s)
		switch {
		case errors.As(err, &nothing):
			logr.FromContextOrDiscard(ctx).Info(nothing.Hosted)
			s.setHealth(t.role, nil)
			continue
		case err != nil:
			if err := s.postpone(ctx, t, c.kind.Table, err); err != nil {
				return err
			}
		}
		s.tables = append(s.tables, t)
	}
	return nil
}

// addTables adds the controllers to the manager. They are added in the order of the rows.
func (s *Sidecar) addTables(ctx context.Context) error {
	for i, t := range s.tables {
		var err error
		if t.again == nil {
			err = s.addTable(ctx, t)
		} else {
			err = s.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error { return s.addLater(ctx, t) }))
		}
		switch {
		case err != nil && i == 0:
			return err
		case err != nil: // of a hosted role; the others do not end with it (OC-12)
			s.fail(ctx, t, err, "until the process is started again")
		}
	}
	return nil
}

// addTable adds the controllers of one role.
func (s *Sidecar) addTable(ctx context.Context, t *table) error {
	settings := s.settings(t.config, t.source)
	for _, c := range t.rows {
		if err := s.add(ctx, c, settings); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// add adds one controller, unless the driver or the API server lacks what it needs.
func (s *Sidecar) add(ctx context.Context, c registry.Controller, settings reconcile.Settings) error {
	switch {
	case c.Off:
		return nil
	case c.Lacks(s.Driver.Controller) || !c.Late && !s.isServed(c.Needs):
		if c.Absent != "" {
			logr.FromContextOrDiscard(ctx).Info(c.Absent, "controller", c.Name)
		}
		return nil
	}
	if c.Component != "" {
		settings.Events = s.Events.Of(c.Component)
	}
	if c.Late {
		if c.Absent != "" && !s.isServed(c.Needs) {
			logr.FromContextOrDiscard(ctx).Info(c.Absent, "controller", c.Name)
		}
		return process.WhenServed(s.Manager, c.Needs, func(ctx context.Context) error { return c.Add(ctx, settings) })
	}
	return c.Add(ctx, settings)
}

// settings returns the settings of the controllers of one role.
func (s *Sidecar) settings(c *Config, source string) reconcile.Settings {
	settings := reconcile.Settings{
		Workers: int(c.Workers), Backoff: reconcile.Backoff{First: c.RetryStart, Most: c.RetryMax},
		Clock: clock.RealClock{}, Events: s.Events,
		Decided:  telemetry.NewCounter(s.Registry, telemetry.MetricDecisions),
		Backlog:  s.Config.Backlog,
		SayAfter: s.Config.SayAfter,
		Watch:    decided(s.Config.Spans),
		Tracing:  s.Config.Tracing,
	}
	if source != "" {
		settings.Events = s.Events.Of(source)
	}
	return settings
}

// isServed reports whether the API server serves the kinds: older ones do not, and a kind can be
// switched off. Without an answer it counts as served.
func (s *Sidecar) isServed(kinds []schema.GroupVersionKind) bool {
	return !slices.ContainsFunc(kinds, func(kind schema.GroupVersionKind) bool {
		if s.Manager == nil {
			return false
		}
		_, err := s.Manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		return meta.IsNoMatchError(err)
	})
}

// trim returns the cache transform, which keeps the fields that the controllers read.
func (s *Sidecar) trim(ctx context.Context) toolscache.TransformFunc {
	var rows []registry.Controller
	for _, t := range s.tables {
		rows = append(rows, registry.Running(t.rows, s.Driver.Controller)...)
	}
	trim := registry.Trim(rows, s.Config.OthersRead...)
	if s.Role.Trim != nil {
		return s.Role.Trim(ctx, s, trim)
	}
	return trim
}

// drain returns how long calls in flight may take when the process ends.
func (s *Sidecar) drain() time.Duration {
	longest := s.Role.Drain
	for _, c := range s.Config.Hosted {
		longest = max(longest, c.drain())
	}
	return longest
}

// Checks returns the permissions that each role of the process needs, in the order of its manifest.
func (s *Sidecar) Checks(ctx context.Context) ([]process.PermissionCheck, error) {
	if s.tables == nil {
		if err := s.findTables(ctx); err != nil {
			return nil, err
		}
	}
	var checks []process.PermissionCheck
	for i, t := range s.tables {
		check := process.PermissionCheck{Role: t.role, Manifests: map[string]string{}}
		grants := s.grants(t)
		for _, g := range grants {
			if g.Manifest != "" {
				check.Manifests[g.Resource] = g.Manifest
			}
		}
		check.Wanted = registry.Permissions(grants)
		if i == 0 {
			check.Wanted = s.withElection(check.Wanted)
			if s.Config.Secure {
				check.Wanted = append(check.Wanted, process.ReviewPermissions...)
				for _, p := range process.ReviewPermissions {
					check.Manifests[p.Resource] = "deploy/optional/metrics-secure.yaml"
				}
			}
		}
		if err := sortAsShipped(t.role, check.Wanted); err != nil {
			return nil, err
		}
		if i == 0 && s.Role.Check != nil {
			s.Role.Check(ctx, s, &check)
		}
		checks = append(checks, check)
	}
	return checks, nil
}

// grants returns those of the controllers that run.
func (s *Sidecar) grants(t *table) []registry.Grant {
	rows := registry.Running(t.rows, s.Driver.Controller)
	grants := registry.Grants(slices.DeleteFunc(rows, func(c registry.Controller) bool { return !s.isServed(c.Needs) }))
	if t.silent {
		return grants
	}
	return append(grants, registry.Events)
}

// sortAsShipped sorts permissions as in the manifest of the role; those that it does not have are last.
func sortAsShipped(role string, permissions []process.Permission) error {
	shipped, err := process.ShippedPermissions(role, "")
	place := func(p process.Permission) int {
		p.Namespace = ""
		if at := slices.Index(shipped, p); at >= 0 {
			return at
		}
		return len(shipped)
	}
	slices.SortStableFunc(permissions, func(a, b process.Permission) int { return cmp.Compare(place(a), place(b)) })
	return err
}

// withElection adds the permissions for the lease.
func (s *Sidecar) withElection(wanted []process.Permission) []process.Permission {
	if !s.Config.Election.Enabled {
		return wanted
	}
	lease := process.Permission{
		Namespace: s.Config.Election.LeaseNamespace(), Group: coordinationv1.GroupName, Resource: "leases",
		Verb: "create",
	}
	all := slices.Concat(wanted, []process.Permission{lease})
	if s.Role.NamedLease {
		lease.Name = s.LeaseName()
	}
	for _, lease.Verb = range []string{"get", "update"} {
		all = append(all, lease)
	}
	var once []process.Permission
	for _, p := range all {
		if !slices.Contains(once, p) {
			once = append(once, p)
		}
	}
	return once
}

// checkPermissions logs each permission that one of the roles lacks.
func (s *Sidecar) checkPermissions(ctx context.Context) {
	checks, err := s.Checks(ctx)
	process.CheckPermissions(ctx, s.API, checks, err)
}
