package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/orphan"
)

// Config is what an audit needs.
type Config struct {
	Cached   client.Reader
	CSI      csi.ControllerClient
	Driver   string        // whose PersistentVolumes count
	Interval time.Duration // between two looks; an orphan is found by the second
	Timeout  time.Duration // of one call to the driver
	Orphans  prometheus.Gauge
}

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

// look lists the driver's side first: a volume that is created while we look is then not listed, or known.
func (a *Audit) look(ctx context.Context) error {
	listed, err := a.list(ctx)
	if err != nil {
		return err
	}
	known, err := a.known(ctx)
	if err != nil {
		return err
	}
	var orphans []string
	orphans, a.suspects = orphan.Look(a.suspects, listed, known)
	a.Orphans.Set(float64(len(orphans)))
	if len(orphans) > 0 {
		logr.FromContextOrDiscard(ctx).Info("the driver has volumes that no PersistentVolume names; they are left alone",
			"count", len(orphans), "volumes", orphans[:min(len(orphans), mostNamed)])
	}
	return nil
}

// mostPages ends a list that a driver lets go round in circles.
const mostPages = 10_000

func (a *Audit) list(ctx context.Context) (orphan.Listed, error) {
	var listed orphan.Listed
	token := ""
	for range mostPages {
		page, err := a.page(ctx, token)
		if err != nil {
			return nil, fmt.Errorf("ListVolumes: %w", err)
		}
		for _, entry := range page.GetEntries() {
			listed = append(listed, entry.GetVolume().GetVolumeId())
		}
		if token = page.GetNextToken(); token == "" {
			return listed, nil
		}
	}
	return nil, fmt.Errorf("ListVolumes: no end after %d pages", mostPages)
}

func (a *Audit) page(ctx context.Context, token string) (*csi.ListVolumesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	return a.CSI.ListVolumes(ctx, &csi.ListVolumesRequest{StartingToken: token})
}

func (a *Audit) known(ctx context.Context) (orphan.Known, error) {
	var volumes corev1.PersistentVolumeList
	if err := a.Cached.List(ctx, &volumes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("PersistentVolumes: %w", err)
	}
	known := make(orphan.Known, len(volumes.Items))
	for i := range volumes.Items {
		if source := volumes.Items[i].Spec.CSI; source != nil && source.Driver == a.Driver {
			known[source.VolumeHandle] = true
		}
	}
	return known, nil
}
