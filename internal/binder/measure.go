package binder

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// measures times whole operations as upstream does (1.16): from the first time that a claim is seen
// to need a volume to the end of its binding, and from the release of a volume that is to be
// deleted to the moment when it is gone.
type measures struct {
	metrics *telemetry.Binding
	clock   clock.PassiveClock

	mu         sync.Mutex
	provisions map[types.NamespacedName]operation
	deletions  map[string]operation
}

type operation struct {
	plugin string
	began  time.Time
}

func newMeasures(metrics *telemetry.Binding, now clock.PassiveClock) *measures {
	return &measures{
		metrics:    metrics,
		clock:      now,
		provisions: map[types.NamespacedName]operation{},
		deletions:  map[string]operation{},
	}
}

// done records each action and its outcome.
func (m *measures) done(s binding.Snapshot, action binding.Action, err error) {
	if m.metrics == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch a := action.(type) {
	case binding.AskProvisioner:
		m.asked(s.Key.Claim, a.Driver, err)
	case binding.HandOver:
		m.asked(s.Key.Claim, a.Driver, err)
	case binding.ClaimVolume, binding.Complete:
		m.provisionFailed(s.Key.Claim, err)
	case binding.SetClaimStatus:
		m.provisionFailed(s.Key.Claim, err)
		if op, ok := m.provisions[s.Key.Claim]; ok && err == nil && a.Status.Phase == corev1.ClaimBound {
			m.metrics.Took(op.plugin, telemetry.OperationProvision, m.clock.Since(op.began))
			delete(m.provisions, s.Key.Claim)
		}
	case binding.SetVolumePhase:
		m.released(a, err)
	case binding.AssignClass:
		m.metrics.ClassAssigned(err)
	case binding.Reserve, binding.Unbind, binding.SetMigration, binding.Tell: // not counted
	}
}

func (m *measures) asked(claim types.NamespacedName, driver string, err error) {
	if _, ok := m.provisions[claim]; !ok {
		m.provisions[claim] = operation{driver, m.clock.Now()}
	}
	m.provisionFailed(claim, err)
}

func (m *measures) provisionFailed(claim types.NamespacedName, err error) {
	if op, ok := m.provisions[claim]; ok && err != nil {
		m.metrics.Failed(op.plugin, telemetry.OperationProvision)
	}
}

func (m *measures) released(a binding.SetVolumePhase, err error) {
	if a.Volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		a.Phase == corev1.VolumeAvailable {
		return
	}
	plugin := binding.Deleter(a.Volume)
	if a.Phase == corev1.VolumeFailed {
		m.metrics.Failed(plugin, telemetry.OperationDelete)
		return
	}
	if err == nil {
		m.deletions[a.Volume.Name] = operation{plugin, m.clock.Now()}
	}
}

// claimGone forgets a claim whose volume is not awaited any more.
func (m *measures) claimGone(claim types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.provisions, claim)
}

// volumeGone ends the deletion of a volume.
func (m *measures) volumeGone(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if op, ok := m.deletions[name]; ok {
		m.metrics.Took(op.plugin, telemetry.OperationDelete, m.clock.Since(op.began))
		delete(m.deletions, name)
	}
}
