package binder

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// 1.4: the event of a phase is emitted each time that the volume enters the phase.
func TestEventsOfEachPhase(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy corev1.PersistentVolumeReclaimPolicy
		reuse  string
		event  string
	}{
		{"failed", corev1.PersistentVolumeReclaimRecycle, "", "v Warning VolumeFailedRecycle No recycler plugin found for the volume!"},
		{"released", corev1.PersistentVolumeReclaimRetain, "", `v Normal VolumeReleased Claim "default/c" is gone. The volume is kept with its data,`},
		{"reused", corev1.PersistentVolumeReclaimRetain, names.ReuseAny, `v Normal VolumeReused Claim "default/c" is gone, and the volume is offered again w`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *testCluster) {
				w.start()
				v := liveVolume("v", "a")
				v.Spec.PersistentVolumeReclaimPolicy = tc.policy
				if tc.reuse != "" {
					v.Annotations = map[string]string{names.AnnReuse: tc.reuse}
				}
				w.create(v)
				for range 3 {
					claim := liveClaim("c", "a")
					w.create(claim)
					w.expect("c Bound v; v Bound c")
					w.wantEvents()
					w.remove(claim)
					w.wantEvents(tc.event)
					if now := apiserver.Objects(w.server, v)[0]; now.Spec.ClaimRef != nil {
						edit(w, v, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
					}
					w.expect("v Available")
				}
			})
		})
	}
}

// 8.14: purser/reuse on a claim is mentioned once, and not at each event of the claim.
func TestReuseOnAClaimIsToldOnce(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		w.start()
		w.create(liveVolume("v", "a"))
		claim := liveClaim("c", "a")
		claim.Annotations = map[string]string{names.AnnReuse: names.ReuseAny}
		w.create(claim)
		w.expect("c Bound v; v Bound c")
		w.wantEvents("c Warning ReuseInvalid annotation purser/reuse has no effect on a claim, and does n")
		edit(w, claim, func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} })
		w.wantEvents()
	})
}

// 1.4: an event is emitted whenever the reason to wait changes. An event about something else is
// emitted once.
func TestEventsOfEachReasonToWait(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.start()
		class := dynamicClass("late")
		class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
		const alone, scheduled = "c Normal WaitForFirstConsumer waiting for first consumer to be created before binding",
			"c Normal WaitForPodScheduled waiting for pod p to be scheduled"
		w.create(class, liveClaim("c", "late"))
		w.wantEvents(alone)
		for range 3 {
			w.create(podUsing("p", "c"))
			w.wantEvents(scheduled)
			p.enqueue(p.objectStore.keys())
			w.settle()
			w.wantEvents()
			w.remove(podUsing("p", "c"))
			w.wantEvents(alone)
		}
		raw := provisioned("v", apiserver.Objects(w.server, liveClaim("c", ""))[0])
		raw.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		w.create(raw)
		w.wantEvents("v Warning VolumeMismatch Cannot bind PersistentVolume to requested PersistentVolumeCl", "c Warning VolumeMismatch Cannot bind PersistentVolume \"v\" to requested PersistentVolu")
		for range 3 {
			p.enqueue(p.objectStore.keys())
			time.Sleep(time.Second)
		}
		w.wantEvents()
	})
}

// An event is not emitted again, however often the key is reconciled, until its message changes or
// much time has passed.
func TestEventsAreToldOnce(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.start()
		w.create(liveClaim("c", ""))
		const text = "c Normal FailedBinding no persistent volumes available for this claim and no storag"
		w.wantEvents(text)
		for range 10 {
			p.enqueue(p.objectStore.keys())
			w.settle()
		}
		w.wantEvents()
		time.Sleep(reconcile.TellAgain)
		p.enqueue(p.objectStore.keys())
		w.settle()
		w.wantEvents(text)
	})
}
