package roles

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/controllers/handoff"
	"github.com/purser-csi/purser/internal/csirpc"
)

func (h *harbour) startDriver(ctx context.Context) error {
	d := NewDriver()
	d.Version, d.Log = h.Version, logr.FromContextOrDiscard(ctx).WithName("driver")
	d.Endpoint, d.StateDir, d.NodeID = "unix://"+filepath.Join(h.dir, socketName), filepath.Join(h.dir, "driver"), h.NodeName
	d.Notice = func(text string) { h.screen.say("  %s", text) }
	if err := d.Validate(); err != nil {
		return fmt.Errorf("driver: %w", err)
	}
	h.parts = append(h.parts, startPart(ctx, "driver", d.Run))
	return nil
}

// meetDriver waits for the driver, which must answer in time: a user's own is running already, or it is a mistake.
func (h *harbour) meetDriver(ctx context.Context, endpoint string) (place, error) {
	began := time.Now()
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: endpoint, Timeout: 3 * time.Second})
	if err != nil {
		return place{}, err
	}
	defer conn.Close()
	bound, cancel := context.WithTimeout(ctx, h.DriverWait)
	defer cancel()
	if len(h.parts) > 0 {
		go func() { // a driver that has ended will not answer
			select {
			case <-h.parts[0].ended:
				cancel()
			case <-bound.Done():
			}
		}()
	}
	if err := conn.WaitReady(bound, func(error) {}); err != nil {
		if ctx.Err() != nil {
			return place{}, ctx.Err()
		}
		for _, p := range h.parts {
			if failed := p.err(); failed != nil {
				return place{}, failed
			}
		}
		return place{}, fmt.Errorf("%w; start the driver first, or give the right --csi-address (waited %s)", err, h.DriverWait)
	}
	driver, err := conn.Describe(ctx)
	if err != nil {
		return place{}, err
	}
	h.screen.step(fmt.Sprintf("driver %s %s", driver.Name, driver.Version), time.Since(began))
	return whereIs(ctx, conn, h.NodeName, driver), nil
}

// startProvisioner returns when the provisioner works: ready means that a claim gets its volume at once.
func (h *harbour) startProvisioner(ctx context.Context, endpoint string, desk *handoff.Queue) error {
	api, err := h.furnisher.as(ctx, "csi-provisioner")
	if err != nil {
		return err
	}
	p := NewProvisioner()
	p.Version, p.Log, p.API = h.Version, logr.FromContextOrDiscard(ctx).WithName("csi-provisioner"), api
	p.CSIAddress, p.HTTPEndpoint, p.Election.Namespace = endpoint, h.HTTPEndpoint, systemNamespace
	p.FormerEnded = h.CSIAddress == "" // the lock on the data folder says that the last `up` is gone, and with it its driver
	p.Desk, p.DropProtection = desk, desk != nil
	return h.startRole(ctx, "csi-provisioner", func(started func()) role { p.Started = started; return p })
}

func (h *harbour) startControllers(ctx context.Context, desk *handoff.Queue) error {
	api, err := h.furnisher.as(ctx, "controllers")
	if err != nil {
		return err
	}
	c := NewControllers()
	c.Version, c.Log, c.API, c.Desk = h.Version, logr.FromContextOrDiscard(ctx).WithName("controllers"), api, desk
	c.Election.Namespace = systemNamespace
	return h.startRole(ctx, "controllers", func(started func()) role { c.Started = started; return c })
}

// startRole returns when the role works, or has ended instead.
func (h *harbour) startRole(ctx context.Context, name string, prepare func(started func()) role) error {
	began := time.Now()
	started := make(chan struct{})
	part := startPart(ctx, name, prepare(func() { close(started) }).Run)
	h.parts = append(h.parts, part)
	select {
	case <-started:
		h.screen.step(name, time.Since(began))
		return nil
	case <-part.ended:
		return part.err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
