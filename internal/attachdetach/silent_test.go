package attachdetach

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/purser-csi/purser/internal/verdict"
)

// messages has the events of a rig with their texts.
type messages struct{ all []string }

func (m *messages) Event(o runtime.Object, _, reason, message string) {
	m.all = append(m.all, o.(client.Object).GetName()+" "+reason+" "+message)
}

// The attacher may not emit events, so the attach-detach controller says on the pod, after a minute,
// what the volume waits for.
func TestLongWaitsAreSaidOnThePod(t *testing.T) {
	in := func(phase corev1.PodPhase) *corev1.Pod {
		p := pod("p", "a")
		p.Status.Phase = phase
		return p
	}
	deleted := func(failure string) *storagev1.VolumeAttachment {
		one := va("a", true)
		one.DeletionTimestamp = new(metav1.NewTime(start))
		if failure != "" {
			one.Status.DetachError = &storagev1.VolumeError{Message: failure}
		}
		return one
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		says    []string
	}{
		"an old attachment is still being deleted": {
			[]client.Object{in(corev1.PodPending), deleted("")}, []string{"is being deleted; a new one follows"},
		},
		"and the driver fails to detach": {
			[]client.Object{in(corev1.PodPending), deleted("device busy")}, []string{"a new one follows", "failed: device busy"},
		},
		"it was deleted by hand under a pod that runs": {
			[]client.Object{in(corev1.PodRunning), deleted("")}, []string{"is being deleted; a new one follows"},
		},
		"the driver is not in the node's CSINode": { // so the attacher does nothing
			[]client.Object{
				in(corev1.PodPending), va("a", false), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			}, []string{"attaches the volume to node a", "kubectl get csinode NODE -o yaml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := &messages{}
			r := newRig(t, interceptor.Funcs{}, append(append(pair(), node("a")), tc.objects...)...)
			r.Events = said
			r.loop = r.Loop()
			r.run()
			r.clock.Step(time.Minute - time.Second)
			r.run()
			if len(said.all) > 0 {
				t.Errorf("within a minute: %q", said.all)
			}
			r.clock.Step(2 * time.Second)
			r.run()
			if len(said.all) != 1 || !strings.HasPrefix(said.all[0], "p "+string(verdict.AttachUnderWay)+" ") {
				t.Fatalf("after a minute: %q", said.all)
			}
			for _, part := range tc.says {
				if !strings.Contains(said.all[0], part) {
					t.Errorf("%q is not in %q", part, said.all[0])
				}
			}
		})
	}
}
