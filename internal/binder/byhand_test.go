package binder

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
)

// byHand is a binder that sees what it is shown by hand.
type byHand struct {
	*process
	queue
	enqueued []binding.Key
}

func (w *testCluster) byHand(edits ...func(*Config)) *byHand {
	w.Helper()
	h := &byHand{process: w.prepare(edits...)}
	h.workQueue.set(h)
	return h
}

var liveMemory = Memory{ClaimAsked: true, Asked: func(string) bool { return true }}

func (h *byHand) show(o client.Object) {
	switch o := o.(type) {
	case *corev1.PersistentVolume:
		h.volumeSeen(o, o)
	case *corev1.PersistentVolumeClaim:
		h.claimSeen(o, o)
	}
}

func (h *byHand) showGone(o client.Object) {
	switch o := o.(type) {
	case *corev1.PersistentVolume:
		h.volumeSeen(o, nil)
	case *corev1.PersistentVolumeClaim:
		h.claimSeen(o, nil)
	}
}

// Add implements workqueue.TypedInterface.
func (h *byHand) Add(key binding.Key) {
	if !slices.Contains(h.enqueued, key) {
		h.enqueued = append(h.enqueued, key)
	}
}

func (h *byHand) keys() []binding.Key { return slices.Clone(h.enqueued) }

func (h *byHand) took(key binding.Key) {
	h.enqueued = slices.DeleteFunc(h.enqueued, func(k binding.Key) bool { return k == key })
}
