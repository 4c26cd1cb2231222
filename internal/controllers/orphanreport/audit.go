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

// Config has the settings of an audit.
type Config struct {
	Cached   client.Reader
	CSI      csi.ControllerClient
	Calls    *csirpc.Caller
	Driver   string        // only its PersistentVolumes count
	Interval time.Duration // between two comparisons; an orphan is found by the second
	Timeout  time.Duration // of one call to the driver
	Journal  Journal       // of unresolved requests
	Orphans  prometheus.Gauge
}

// Journal has the requests that may have created a volume whose handle is not known yet.
type Journal interface{ Entries() []intent.Entry }

// Audit is a runnable of the manager that runs on the leader.
type Audit struct {
	Config
	suspects orphan.Suspects
}

// New returns an audit that is not started.
func New(cfg Config) *Audit { return &Audit{Config: cfg} }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (a *Audit) NeedLeaderElection() bool { return true }

// Start compares once per interval until ctx ends. A failed comparison is logged and changes
// nothing.
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

// mostNamed bounds the number of volumes in one log line.
const mostNamed = 20

// look compares once and logs the volumes that two comparisons in a row found.
func (a *Audit) look(ctx context.Context) error {
	view, err := a.view(ctx)
	if err != nil {
		return err
	}
	var found orphan.Found
	found, a.suspects = orphan.Compare(a.suspects, view)
	orphans := found.Orphans()
	a.Orphans.Set(float64(orphans))
	if orphans > 0 {
		logr.FromContextOrDiscard(ctx).Info("the driver has volumes that no PersistentVolume names; they are left alone",
			"count", orphans, "volumes", found.Unknown[:min(len(found.Unknown), mostNamed)], "requestsOnRecord", found.Unresolved)
	}
	return nil
}

// view lists the driver's volumes before the PersistentVolumes: a volume created meanwhile is
// either not listed or has its PersistentVolume. The journal entries at the beginning and at the
// end cover CreateVolume calls in between.
func (a *Audit) view(ctx context.Context) (view orphan.View, err error) {
	entries := a.Journal.Entries()
	if view.Listed, err = a.list(ctx); err != nil {
		return view, err
	}
	if view.Known, err = a.known(ctx); err != nil {
		return view, err
	}
	view.Unresolved = map[types.UID]bool{}
	for _, e := range append(entries, a.Journal.Entries()...) {
		view.Unresolved[e.UID] = true
	}
	return view, nil
}

func (a *Audit) list(ctx context.Context) (listed []string, err error) {
	err = a.Calls.ListVolumes(ctx, a.CSI, csirpc.Listing{Timeout: a.Timeout}, func(entry *csi.ListVolumesResponse_Entry) {
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
