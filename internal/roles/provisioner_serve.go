package roles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/telemetry"
)

// serve answers HTTP requests from now on; what is not there yet is not ready.
func (w *wiring) serve(ctx context.Context, measures prometheus.Gatherer) error {
	cfg := httpConfig{Address: w.role.address(), MetricsPath: w.role.MetricsPath, Metrics: measures, Pprof: w.role.Pprof}
	if w.role.Election.Enabled && w.role.HTTPEndpoint != "" { // HT-2, F-52
		cfg.Leader = w.renewing
	}
	w.http = newHTTPServer(cfg)
	if w.role.beside.ready != nil {
		w.http.setCheck(w.role.beside.name, w.role.beside.ready)
	}
	w.http.setCheck("driver", notYet("the driver has not answered yet"))
	w.http.setCheck("cache", notYet("waiting for the driver"))
	if cfg.Address == "" {
		return nil
	}
	where, err := w.http.start(ctx)
	if err == nil && w.role.listened != nil {
		w.role.listened(where)
	}
	return err
}

// renewing is an error when a lease that this process holds is not renewed.
func (w *wiring) renewing() error {
	var errs []error
	if lock := w.lock.Load(); lock != nil {
		errs = append(errs, lock.healthy())
	}
	if w.role.beside.renewing != nil {
		errs = append(errs, w.role.beside.renewing())
	}
	return errors.Join(errs...)
}

// run is what follows once the driver is known.
func (w *wiring) run(ctx context.Context) error {
	var err error
	dropped := telemetry.NewCounter(w.registry, telemetry.MetricEventsDropped).WithLabelValues()
	w.role.countThrottle(w.registry)
	w.events, err = kube.NewEvents(ctx, kube.EventsConfig{
		API: w.api, Component: eventSource(w.driver.Name), Dropped: dropped.Inc, Traffic: w.role.traffic,
	})
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	defer w.events.Close()
	if w.mgr, err = w.manager(ctx); err != nil {
		return err
	}
	if err := w.controllers(ctx); err != nil {
		return err
	}
	if err := saveMemory(w.mgr); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	watch := lookout{role: w.role, conn: w.conn, driver: w.driver, terminationLog: terminationLog}
	for name, runnable := range map[string]manager.Runnable{"http endpoint": w.http, "driver connection": watch} {
		if err := w.mgr.Add(runnable); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	w.http.setCheck("driver", w.conn.Probe)
	w.http.setCheck("cache", func(ctx context.Context) error { return synced(ctx, w.mgr) })
	w.warnOfTopology(ctx)

	defer alongside(ctx, w.checkPermissions)()
	return w.mgr.Start(ctx)
}

// topology reports whether places matter: the driver has them, and the gate does not say to look away (G-1).
func (w *wiring) topology() bool {
	return w.driver.HasTopology() && w.role.Gates.Enabled(GateTopology)
}

// attaches reports whether volumes of the driver have VolumeAttachments at all (W-5).
func (w *wiring) attaches() bool {
	return w.driver.Controller[csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME]
}

// warnOfTopology tells of the two settings whose defaults this version does not do: places beside that of the selected node (T-13), and
// places where no node is selected (T-16).
func (w *wiring) warnOfTopology(ctx context.Context) {
	if w.topology() && (!w.role.StrictTopology || w.role.Immediate) {
		logr.FromContextOrDiscard(ctx).Info("volumes are asked for at the selected node only, and without one the driver chooses, as with these flags",
			"flags", "--strict-topology=true --immediate-topology=false")
	}
}

func synced(ctx context.Context, mgr manager.Manager) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("the first list of objects is not complete")
	}
	return nil
}
