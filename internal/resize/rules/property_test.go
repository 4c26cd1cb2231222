package resizing

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// model is a driver and a node that succeed, or fail with a code; it knows the true size of the
// volume.
type model struct {
	claim     *corev1.PersistentVolumeClaim
	volume    *corev1.PersistentVolume
	size      int64 // of the volume on the backend
	uncertain int64 // a size that the driver may still be working on; 0 for none
}

// step runs one reconcile; crash ends it before an action with this number, as a killed process.
func (m *model) step(t *rapid.T, answer Answer, crash int) {
	v := Decide(Snapshot{Claim: m.claim, Volume: m.volume, Driver: Driver{Name: driver, Controller: true}}, time.Unix(0, 0))
	for n := 0; ; {
		todo, ok := v.(do)
		if !ok {
			return
		}
		v = todo.Then
		for _, a := range todo.Actions {
			if n == crash {
				return
			}
			n++
			if e, asks := a.(Expand); asks {
				v = AfterExpand(Snapshot{Claim: m.claim, Volume: m.volume, Driver: Driver{Name: driver, Controller: true}}, e, m.expand(t, e.Bytes, answer))
				break
			}
			m.write(a)
		}
	}
}

func (m *model) write(a Action) {
	m.claim = Apply(m.claim, a, metav1.Now())
	if r, ok := a.(RaiseVolume); ok {
		m.volume = m.volume.DeepCopy()
		m.volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: r.Capacity}
	}
}

// expand is the driver: it fails the test on a request below a size that is in flight.
func (m *model) expand(t *rapid.T, wants int64, answer Answer) Answer {
	if m.uncertain > 0 && wants != m.uncertain {
		t.Fatalf("asked for %d while the outcome of %d is unknown", wants, m.uncertain)
	}
	if wants < m.size && m.size > wants {
		answer.Capacity = m.size
	}
	switch {
	case answer.Failure == nil:
		m.size, m.uncertain = max(m.size, wants), 0
		answer.Capacity = m.size
	case answer.Failure.IsFinal():
		m.uncertain = 0
	default:
		m.uncertain = wants
		if answer.Failure.Code == codes.DeadlineExceeded { // it happens all the same
			m.size = max(m.size, wants)
		}
	}
	return answer
}

// With any answers of the driver and kills of the process: the claim's capacity is never above the
// volume's size, no other size is requested while an outcome is uncertain, and when the driver
// works again the claim gets the size that it requests.
func TestExpansionIsSafeAndLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{claim: claim("1Gi"), volume: volume("1Gi"), size: 1 << 30}
		m.volume.Spec.CSI.Driver = driver
		failures := []codes.Code{codes.OK, codes.DeadlineExceeded, codes.Unavailable, codes.OutOfRange, codes.Internal, codes.FailedPrecondition}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "edit") {
				gi := rapid.Int64Range(1, 9).Draw(t, "gi") << 30
				has := m.claim.Status.Capacity[corev1.ResourceStorage]
				if gi >= has.Value() { // the API server allows nothing else (RZ-K5)
					m.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(gi, resource.BinarySI)}
				}
			}
			answer := Answer{OnNode: rapid.Bool().Draw(t, "node")}
			if code := rapid.SampledFrom(failures).Draw(t, "code"); code != codes.OK {
				answer.Failure = &Failure{Code: code}
			}
			m.step(t, answer, rapid.IntRange(0, 6).Draw(t, "crash"))
			m.check(t)
		}
		m.uncertain = 0 // the driver has become certain
		for range 6 {
			m.step(t, Answer{}, -1)
			m.nodeFinishes()
		}
		has, wants := m.claim.Status.Capacity[corev1.ResourceStorage], m.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if has.Cmp(wants) < 0 {
			t.Fatalf("the claim has %s and asks for %s: %+v", has.String(), wants.String(), m.claim.Status)
		}
		m.check(t)
	})
}

func (m *model) check(t *rapid.T) {
	has, volume := m.claim.Status.Capacity[corev1.ResourceStorage], m.volume.Spec.Capacity[corev1.ResourceStorage]
	if has.Value() > m.size || volume.Value() > m.size {
		t.Fatalf("the volume has %d, the PersistentVolume says %s and the claim %s", m.size, volume.String(), has.String())
	}
}

// nodeFinishes writes the status as the kubelet does after an expansion (RZ-K2).
func (m *model) nodeFinishes() {
	if status(m.claim) == corev1.PersistentVolumeClaimNodeResizePending {
		size, _ := allocated(m.claim)
		m.write(Finish{Size: size, Capacity: m.volume.Spec.Capacity[corev1.ResourceStorage]})
	}
}
