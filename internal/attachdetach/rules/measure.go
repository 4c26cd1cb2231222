package attachment

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// Measured is what the metrics say of one volume (4.12).
type Measured struct {
	InUse   map[string]int // pods with the volume, by their node
	Desired int            // nodes that need the volume
	Actual  int            // nodes that have it, or may have it
	Awaited []string       // nodes that need it and do not list it yet, sorted
	Waiting []WaitingDetach
	// Conflicts are the nodes that need it while another node has it or may have it.
	Conflicts int
}

// WaitingDetach is a volume on a node that does not need it.
type WaitingDetach struct {
	Node   string
	Reason verdict.Reason // what the detach waits for
	Since  time.Time      // when the need ended
}

// IsEmpty reports whether there is nothing to say of the volume.
func (m Measured) IsEmpty() bool {
	return len(m.InUse) == 0 && m.Desired == 0 && m.Actual == 0 && len(m.Waiting) == 0
}

// waitToDetach notes that a detach waits.
func (p *plan) waitToDetach(node string, reason verdict.Reason) {
	since, noted := p.Unwanted[node]
	if !noted {
		since = p.now
	}
	p.measured.Waiting = append(p.measured.Waiting, WaitingDetach{Node: node, Reason: reason, Since: since})
}

// Measure returns what the metrics say of a volume.
func Measure(s Snapshot, now time.Time) Measured {
	if s.Key.Attachment != "" {
		return Measured{}
	}
	p := planFor(s, now)
	m := p.measured
	m.Desired = len(p.wants)
	for _, pod := range s.Pods {
		if pod.Spec.NodeName != "" {
			if m.InUse == nil {
				m.InUse = map[string]int{}
			}
			m.InUse[pod.Spec.NodeName]++
		}
	}
	m.Actual = len(s.Attachments) - len(p.foreign)
	for node := range p.wants {
		if !s.isListed(node) {
			m.Awaited = append(m.Awaited, node)
		}
	}
	slices.Sort(m.Awaited)
	return m
}

// IsMigrated reports whether the volume is one of an in-tree plugin.
func (s Snapshot) IsMigrated() bool {
	return s.Inline != nil ||
		slices.ContainsFunc(s.Volumes, func(pv *corev1.PersistentVolume) bool { return pv.Spec.CSI == nil })
}
