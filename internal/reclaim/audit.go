package reclaim

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

	"github.com/purser-csi/purser/internal/csirpc"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

// OrphanAuditConfig has the settings of an audit.
type OrphanAuditConfig struct {
	Cached   client.Reader
	CSI      csi.ControllerClient
	Calls    *csirpc.Caller
	Driver   string        // only its PersistentVolumes count
	Interval time.Duration // between two comparisons; an orphan is found by the second
	Timeout  time.Duration // of one call to the driver
	Journal  OrphanJournal // of unresolved requests
	Orphans  prometheus.Gauge
}

// OrphanJournal has the requests that may have created a volume whose handle is not known yet.
type OrphanJournal interface{ Entries() []intent.Entry }

// OrphanAudit is a runnable of the manager that runs on the leader.
type OrphanAudit struct {
	OrphanAuditConfig
	suspects reclaim.Suspects
}

// NewOrphanAudit returns an audit that is not started.
func NewOrphanAudit(cfg OrphanAuditConfig) *OrphanAudit { return &OrphanAudit{OrphanAuditConfig: cfg} }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (a *OrphanAudit) NeedLeaderElection() bool { return true }

// Start compares once per interval until ctx ends. A failed comparison is logged and changes
// nothing.
func (a *OrphanAudit) Start(ctx context.Context) error {
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
func (a *OrphanAudit) look(ctx context.Context) error {
	view, err := a.view(ctx)
	if err != nil {
		return err
	}
	var found reclaim.Found
	found, a.suspects = reclaim.CompareOrphans(a.suspects, view)
	orphans := found.Orphans()
	a.Orphans.Set(float64(orphans))
	if orphans > 0 {
		logr.FromContextOrDiscard(ctx).Info("the driver has volumes that no PersistentVolume names; they are left "+
			"alone",
			"count", orphans, "volumes", found.Unknown[:min(len(found.Unknown), mostNamed)], "requestsOnRecord",
			found.Unresolved)
	}
	return nil
}

// view lists the driver's volumes before the PersistentVolumes: a volume created meanwhile is
// either not listed or has its PersistentVolume. The journal entries at the beginning and at the
// end cover CreateVolume calls in between.
func (a *OrphanAudit) view(ctx context.Context) (view reclaim.OrphanView, err error) {
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

func (a *OrphanAudit) list(ctx context.Context) (listed []string, err error) {
	err = a.Calls.ListVolumes(ctx, a.CSI, csirpc.Listing{Timeout: a.Timeout},
		func(entry *csi.ListVolumesResponse_Entry) {
			listed = append(listed, entry.GetVolume().GetVolumeId())
		})
	return listed, err
}

func (a *OrphanAudit) known(ctx context.Context) (map[string]bool, error) {
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
