package orphanreport

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/orphan"
	"github.com/purser-csi/purser/internal/csirpc"
)

// Config is what an audit needs.
type Config struct {
	Cached   client.Reader
	CSI      csi.ControllerClient
	Driver   string        // whose PersistentVolumes count
	Interval time.Duration // between two looks; an orphan is found by the second
	Timeout  time.Duration // of one call to the driver
	Journal  Journal       // of requests whose outcome is not known
	Orphans  prometheus.Gauge
}

// Journal has the requests that may have made a volume whose handle is not known yet.
type Journal interface{ Entries() []intent.Entry }

// Audit is a runnable of the manager, on the leader only.
type Audit struct {
	Config
	suspects orphan.Suspects
}

// New returns an audit that has not looked yet.
func New(cfg Config) *Audit { return &Audit{Config: cfg} }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (a *Audit) NeedLeaderElection() bool { return true }

// Start looks once per interval until ctx ends. A look that fails is logged and changes nothing.
func (a *Audit) Start(ctx context.Context) error {
	ticker := time.NewTicker(a.Interval)
	defer ticker.Stop()
	for {
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Info("the audit of volumes could not look", "problem", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// mostNamed bounds one log line.
const mostNamed = 20

// look compares once, and tells of what two looks agree on.
func (a *Audit) look(ctx context.Context) error {
	view, err := a.view(ctx)
	if err != nil {
		return err
	}
	var found orphan.Found
	found, a.suspects = orphan.Look(a.suspects, view)
	orphans := found.Orphans()
	a.Orphans.Set(float64(orphans))
	if orphans > 0 {
		logr.FromContextOrDiscard(ctx).Info("the driver has volumes that no PersistentVolume names; they are left alone",
			"count", orphans, "volumes", found.Unknown[:min(len(found.Unknown), mostNamed)], "requestsOnRecord", found.Unsettled)
	}
	return nil
}

// view lists the driver's side before ours: a volume that is created while we look is then not
// listed, or known. What is on record when we begin or end covers what happens between.
func (a *Audit) view(ctx context.Context) (view orphan.View, err error) {
	entries := a.Journal.Entries()
	if view.Listed, err = a.list(ctx); err != nil {
		return view, err
	}
	if view.Known, err = a.known(ctx); err != nil {
		return view, err
	}
	view.Unsettled = map[types.UID]bool{}
	for _, e := range append(entries, a.Journal.Entries()...) {
		view.Unsettled[e.UID] = true
	}
	return view, nil
}

func (a *Audit) list(ctx context.Context) (listed []string, err error) {
	err = csirpc.ListVolumes(ctx, a.CSI, csirpc.Listing{Timeout: a.Timeout}, func(entry *csi.ListVolumesResponse_Entry) {
		listed = append(listed, entry.GetVolume().GetVolumeId())
	})
	return listed, err
}

func (a *Audit) known(ctx context.Context) (map[string]bool, error) {
	var volumes corev1.PersistentVolumeList
	if err := a.Cached.List(ctx, &volumes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("PersistentVolumes: %w", err)
	}
	known := make(map[string]bool, len(volumes.Items))
	for i := range volumes.Items {
		if source := volumes.Items[i].Spec.CSI; source != nil && source.Driver == a.Driver {
			known[source.VolumeHandle] = true
		}
	}
	return known, nil
}
