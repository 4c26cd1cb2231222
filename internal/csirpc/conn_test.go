package csirpc

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/purser-csi/purser/test/scripted"
)

// driver is a scripted CSI driver.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer

	info       *csi.GetPluginInfoResponse
	plugin     *csi.GetPluginCapabilitiesResponse
	controller *csi.ControllerGetCapabilitiesResponse
	fail       map[string]error
	stop       func() // of the caller, in the middle of GetPluginCapabilities

	mu     sync.Mutex
	probes []func(context.Context) (*csi.ProbeResponse, error) // the last one stays
	probed int
}

func (d *driver) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	d.mu.Lock()
	answer := d.probes[min(d.probed, len(d.probes)-1)]
	d.probed++
	d.mu.Unlock()
	return answer(ctx)
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return d.info, d.fail["GetPluginInfo"]
}

func (d *driver) GetPluginCapabilities(
	ctx context.Context, _ *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	if d.stop != nil {
		d.stop()
		<-ctx.Done()
	}
	return d.plugin, d.fail["GetPluginCapabilities"]
}

func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return d.controller, d.fail["ControllerGetCapabilities"]
}

func says(answer *csi.ProbeResponse, err error) func(context.Context) (*csi.ProbeResponse, error) {
	return func(context.Context) (*csi.ProbeResponse, error) { return answer, err }
}

func hangs(ctx context.Context) (*csi.ProbeResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// ready is a driver with everything in place, changed by edits.
func ready(edits ...func(*driver)) *driver {
	d := &driver{
		info: &csi.GetPluginInfoResponse{Name: "csi.example", VendorVersion: "v1"},
		plugin: &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
			{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}},
			{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS}}},
		}},
		controller: &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{
			{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}}},
			{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: 4711}}}, // of a later version
		}},
		probes: []func(context.Context) (*csi.ProbeResponse, error){says(&csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil)},
		fail:   map[string]error{},
	}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

func dial(t testing.TB, d *driver, timeout time.Duration) *Conn {
	t.Helper()
	return dialWith(t, d, Config{Timeout: timeout})
}

// dialWith connects to the driver with a config whose endpoint it sets.
func dialWith(t testing.TB, d *driver, cfg Config) *Conn {
	t.Helper()
	cfg.Endpoint = "unix://" + scripted.Start(t, d)
	conn, err := Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ST-5: a driver that is not ready, does not answer in time, or fails is probed again; one that
// does not say whether it is ready is.
func TestDriverIsWaitedFor(t *testing.T) {
	for _, tc := range []struct {
		row    string
		first  func(context.Context) (*csi.ProbeResponse, error)
		last   *csi.ProbeResponse
		failed string
	}{
		{"ST-5 not ready", says(&csi.ProbeResponse{Ready: wrapperspb.Bool(false)}, nil), &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, errNotReady.Error()},
		{"ST-5 no answer in time", hangs, &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, "DeadlineExceeded"},
		{"ST-5 an error", says(nil, status.Error(codes.FailedPrecondition, "no backend")), &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, "no backend"},
		{"ST-5 it does not say", says(&csi.ProbeResponse{Ready: wrapperspb.Bool(false)}, nil), &csi.ProbeResponse{}, errNotReady.Error()},
	} {
		t.Run(tc.row, func(t *testing.T) {
			d := ready(func(d *driver) {
				d.probes = []func(context.Context) (*csi.ProbeResponse, error){tc.first, says(tc.last, nil)}
			})
			var told []string
			note := func(err error) { told = append(told, err.Error()) }
			if err := dial(t, d, time.Second).WaitReady(t.Context(), note); err != nil {
				t.Fatal(err)
			}
			if len(told) != 1 || !strings.Contains(told[0], tc.failed) {
				t.Errorf("told %q, want one line about %s", told, tc.failed)
			}
		})
	}
}

// ST-5: the wait ends when its context ends, and the error has the driver's last one.
func TestWaitingEnds(t *testing.T) {
	never := func(d *driver) {
		d.probes = []func(context.Context) (*csi.ProbeResponse, error){says(nil, status.Error(codes.Internal, "broken"))}
	}
	conn := dial(t, ready(never), time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // for the first answer, on a slow machine
	defer cancel()
	if err := conn.WaitReady(ctx, func(error) {}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v", err)
	}
}

// ST-6, ST-8: name and capabilities are read once, and a capability unknown to this version is no
// error.
func TestDescribe(t *testing.T) {
	got, err := dial(t, ready(), time.Second).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Description{
		Name: "csi.example", Version: "v1",
		Plugin: map[csi.PluginCapability_Service_Type]bool{
			csi.PluginCapability_Service_CONTROLLER_SERVICE: true, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS: true,
		},
		Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true, 4711: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	without, err := dial(t, ready(func(d *driver) {
		d.plugin, d.fail = &csi.GetPluginCapabilitiesResponse{}, map[string]error{"ControllerGetCapabilities": status.Error(codes.Unimplemented, "no")}
	}), time.Second).Describe(t.Context())
	if err != nil || len(without.Controller) > 0 {
		t.Errorf("without a controller service it is not asked: %v, %v", without, err)
	}
}

// A caller that stops in the middle of a call gets the error of a wait that it ended itself.
func TestDescribeIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stops := func(d *driver) { d.stop = cancel }
	if _, err := dial(t, ready(stops), time.Minute).Describe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

// ST-6, ST-8: a failed GetPluginInfo or GetPluginCapabilities is an error that names the call.
func TestDescribeFails(t *testing.T) {
	no := status.Error(codes.Internal, "no")
	for row, tc := range map[string]struct {
		edit func(*driver)
		want string
	}{
		"ST-6 no name":       {func(d *driver) { d.info = &csi.GetPluginInfoResponse{} }, "empty name"},
		"ST-6 an error":      {func(d *driver) { d.fail["GetPluginInfo"] = no }, "GetPluginInfo"},
		"ST-8 of the plugin": {func(d *driver) { d.fail["GetPluginCapabilities"] = no }, "GetPluginCapabilities"},
		"ST-8 of the controller": {
			func(d *driver) { d.fail["ControllerGetCapabilities"] = no }, "ControllerGetCapabilities",
		},
	} {
		t.Run(row, func(t *testing.T) {
			if _, err := dial(t, ready(tc.edit), time.Second).Describe(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error about %s", err, tc.want)
			}
		})
	}
}
