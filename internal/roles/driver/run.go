package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/driver"

	"github.com/purser-csi/purser/internal/driver/reserve"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Run implements role.
func (d *Driver) Run(ctx context.Context) error {
	log := d.Log
	if log.GetSink() == nil {
		var err error
		if log, err = process.NewLog(d.Logging); err != nil {
			return err
		}
	}
	ctx = logr.NewContext(ctx, withOneLineErrors(log))
	if d.Tracing == nil {
		var sent func()
		d.Tracing, sent = process.StartTracing(ctx, "driver", d.Version, process.TraceSettings{})
		defer sent()
	}
	registry := process.NewRegistry()
	plugin, err := d.plugin(registry)
	if err != nil {
		return err
	}
	return d.serve(ctx, plugin, registry)
}

func (d *Driver) plugin(registry prometheus.Registerer) (*driver.Driver, error) {
	settings := d.settings()
	state := settings.StateDir
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, fmt.Errorf("--state-dir=%s: %w", d.StateDir, err)
	}
	var publishing mount.Detection
	err := reserve.New(state).Do(func() (err error) {
		publishing, err = mount.Detect(state)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("--state-dir=%s: %w", d.StateDir, err)
	}
	choice, err := d.chooseBackend(state)
	if err != nil {
		return nil, err
	}
	d.notify(choice.reason)
	d.notify(publishing.Reason)
	settings.Mounter, settings.Metrics = publishing.Mounter, telemetry.NewServed(registry)
	if settings.Backend, err = d.newBackend(choice.kind, state); err != nil {
		return nil, fmt.Errorf("backend %s: %w", choice.kind, err)
	}
	if look := driver.Pool(settings.Backend); look != nil {
		telemetry.NewPool(registry, look)
	}
	if look := driver.Volumes(settings.Backend); look != nil {
		telemetry.NewVolumes(registry, settings.Name, look)
	}
	plugin, err := driver.New(settings)
	if err != nil {
		return nil, err
	}
	return plugin, keepKind(state, choice.kind)
}

// serve runs the driver with its registration and its HTTP server. The driver is registered with
// the kubelet after it accepts calls, and unregistered before it ends.
func (d *Driver) serve(ctx context.Context, plugin *driver.Driver, registry prometheus.Gatherer) error {
	web, err := d.newWeb(plugin, registry)
	if err != nil {
		return err
	}
	defer web.close()
	if err := web.start(ctx); err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		err := plugin.Run(ctx)
		if err == nil && ctx.Err() == nil {
			err = errors.New("the driver ended by itself")
		}
		return err
	})
	parts.Go(func() error { return web.Start(ctx) })
	if d.RegistrationDir != "" {
		parts.Go(func() error { return d.register(ctx, plugin, web) })
	}
	return parts.Wait()
}

// register registers the driver with the kubelet, once the driver accepts calls.
func (d *Driver) register(ctx context.Context, plugin *driver.Driver, web *web) error {
	server, err := NewRegistration(d.registration())
	if err != nil {
		return fmt.Errorf("--registration-dir=%s: %w", d.RegistrationDir, err)
	}
	web.SetCheck("registration", func(context.Context) error { return server.Check() })
	select {
	case <-plugin.Ready():
		return reserve.New(d.settings().StateDir).Do(func() error { return server.Run(ctx) })
	case <-ctx.Done():
		return nil
	}
}

// web is the HTTP endpoint of the driver.
type web struct {
	*process.HTTPServer
	address  string
	own      *csirpc.Conn
	listened func(string)
}

// probeTimeout bounds one answer of /livez and /readyz.
const probeTimeout = 5 * time.Second

// newWeb returns the HTTP endpoint. Its checks call the driver through its socket, as callers do,
// so that they fail when the socket is gone.
func (d *Driver) newWeb(plugin *driver.Driver, registry prometheus.Gatherer) (*web, error) {
	own, err := csirpc.Dial(csirpc.Config{Endpoint: d.Endpoint, Timeout: probeTimeout})
	if err != nil {
		return nil, err
	}
	secure, err := d.secureServer()
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	w := &web{address: d.HTTPEndpoint, own: own, listened: d.Listened}
	w.HTTPServer = process.NewHTTPServer(process.HTTPConfig{
		Address: d.HTTPEndpoint, MetricsPath: d.MetricsPath, Metrics: registry, Pprof: d.Pprof,
		Secure: secure,
		Live: func(ctx context.Context) error {
			select {
			case <-plugin.Ready():
				return own.Probe(ctx)
			default: // reading many volumes takes time, and a restart would begin again
				return nil
			}
		},
	})
	w.SetCheck("driver", func(ctx context.Context) error {
		select {
		case <-plugin.Ready():
			return own.Probe(ctx)
		default:
			return errors.New("going over the volumes of the last run")
		}
	})
	return w, nil
}

// secureServer returns the configuration of HTTPS; nil for plain HTTP.
func (d *Driver) secureServer() (*process.Secure, error) {
	if !d.Secure {
		return nil, nil
	}
	api, err := d.Config("purser-driver/" + d.Version)
	if err != nil {
		return nil, err
	}
	return d.SecureServer(api), nil
}

func (w *web) start(ctx context.Context) error {
	if w.address == "" {
		return nil
	}
	var where net.Addr
	where, err := w.Listen(ctx)
	if err == nil && w.listened != nil {
		w.listened(where.String())
	}
	return err
}

func (w *web) close() {
	if w.address != "" {
		w.Stop()
	}
	_ = w.own.Close()
}

// notify passes a message for the user on. It may quote a path or a program, and loses the characters
// that a terminal acts on.
func (d *Driver) notify(text string) {
	if d.Notice != nil {
		d.Notice(printable.Text(text))
	}
}
