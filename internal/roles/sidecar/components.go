package sidecar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/roles/process"
)

// HealthMonitor is the component of csi-external-health-monitor-controller, as KEP-4958 names it (OC-1).
const HealthMonitor = "health-monitor"

// componentOf returns the name of a role in /healthz/NAME and in --without.
func componentOf(role string) string {
	if role == "csi-external-health-monitor-controller" {
		return HealthMonitor
	}
	return strings.TrimPrefix(role, "csi-")
}

// ready returns nil when the parts that all controllers of the process share work.
func (s *Sidecar) ready(ctx context.Context) error { return s.http.CheckSome(ctx, "driver", "cache") }

// setHealth sets what /healthz/NAME of a role answers; nil for always healthy.
func (s *Sidecar) setHealth(role string, check process.Check) {
	if s.http != nil { // a look at the permissions serves nothing
		s.http.SetComponent(componentOf(role), process.ComponentCheck(check))
	}
}

// tableRetry is how often the rows of a hosted role are asked for that the driver did not answer.
const tableRetry = 10 * time.Second

// postpone has a hosted role wait whose rows cannot be listed, since the driver failed a call about
// them. The other roles work meanwhile (OC-12). The cache keeps the fields of all rows that the role
// may have, which are those without a driver.
func (s *Sidecar) postpone(ctx context.Context, t *table, rows Table, failed error) error {
	possible, err := rows(ctx, &Sidecar{Config: s.Config, Role: s.Role})
	if err != nil {
		return errors.Join(failed, fmt.Errorf("%s: %w", t.role, err))
	}
	t.rows, t.again = possible, rows
	s.fail(ctx, t, failed, tableRetry.String())
	return nil
}

// fail logs why a hosted role does not work and for how long, and has its health and /readyz say it.
func (s *Sidecar) fail(ctx context.Context, t *table, failed error, until string) {
	logr.FromContextOrDiscard(ctx).Error(failed, "a component cannot start; the others work",
		"component", componentOf(t.role), "for", until)
	check := process.NotYet(failed.Error())
	s.setHealth(t.role, check)
	if s.http != nil {
		s.http.SetCheck(componentOf(t.role), check)
	}
}

// addLater adds the controllers of a role once the driver answers. It returns no error: the other
// roles do not end with this one.
func (s *Sidecar) addLater(ctx context.Context, t *table) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tableRetry):
		}
		nothing := NothingToDo{}
		rows, err := t.again(ctx, s)
		if errors.As(err, &nothing) {
			logr.FromContextOrDiscard(ctx).Info(nothing.Hosted)
			s.healthy(t, nil)
			return nil
		}
		if err == nil {
			ready := *t
			ready.rows, ready.again = rows, nil
			if err = s.addTable(ctx, &ready); err == nil {
				logr.FromContextOrDiscard(ctx).Info("a component has started", "component", componentOf(t.role))
				s.healthy(t, s.ready)
				return nil
			}
			s.fail(ctx, t, err, "until the process is started again") // a controller cannot be added twice
			return nil
		}
		if ctx.Err() == nil {
			s.fail(ctx, t, err, tableRetry.String())
		}
	}
}

// healthy ends what [Sidecar.fail] has said.
func (s *Sidecar) healthy(t *table, check process.Check) {
	s.setHealth(t.role, check)
	s.http.SetCheck(componentOf(t.role), func(context.Context) error { return nil })
}
