package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/rolestest"
)

// modifier is a driver that records the tier of each request, and answers with the code of the
// test.
type modifier struct {
	scriptedDriver

	mu     sync.Mutex
	answer map[string]codes.Code // by tier; OK for those that are not here
	tiers  []string
}

func (m *modifier) ControllerModifyVolume(_ context.Context, r *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tier := r.GetMutableParameters()["tier"]
	m.tiers = append(m.tiers, tier)
	if code := m.answer[tier]; code != codes.OK {
		return nil, status.Error(code, "no tier "+tier)
	}
	return &csi.ControllerModifyVolumeResponse{}, nil
}

func (m *modifier) set(tier string, code codes.Code) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer[tier] = code
}

func (m *modifier) asked() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(m.tiers)
}

// modifying is a cluster with a resizer at work beside a driver that modifies volumes.
func modifying(t *testing.T, args ...string) (liveCluster, *modifier) {
	t.Helper()
	m := &modifier{answer: map[string]codes.Code{}}
	m.self = m
	p := growing(t, &m.scriptedDriver, args...)
	return p, m
}

func (p liveCluster) attributesClass(name, driver string) {
	p.Helper()
	p.create(&storagev1.VolumeAttributesClass{ObjectMeta: metav1Name(name), DriverName: driver, Parameters: map[string]string{"tier": name}})
}

// name edits the class of a claim as a user does.
func (p liveCluster) name(claim *corev1.PersistentVolumeClaim, class string) {
	p.Helper()
	before := claim.DeepCopy()
	claim.Spec.VolumeAttributesClassName = &class
	if err := p.user.Patch(p.Context(), claim, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
}

func hasClass(name string) func(*corev1.PersistentVolumeClaim) bool {
	return func(c *corev1.PersistentVolumeClaim) bool {
		return c.Status.CurrentVolumeAttributesClassName != nil && *c.Status.CurrentVolumeAttributesClassName == name &&
			c.Status.ModifyVolumeStatus == nil && len(c.Status.Conditions) == 0
	}
}

func hasModifyStatus(s corev1.PersistentVolumeClaimModifyVolumeStatus) func(*corev1.PersistentVolumeClaim) bool {
	return func(c *corev1.PersistentVolumeClaim) bool {
		return c.Status.ModifyVolumeStatus != nil && c.Status.ModifyVolumeStatus.Status == s
	}
}

// RZ-M7, RZ-M10: a class and back, under upstream's permissions: three writes and one call each.
func TestModifierChangesTheClassAndBack(t *testing.T) {
	p, m := modifying(t)
	p.attributesClass("silver", m.name)
	p.attributesClass("gold", m.name)
	claim := p.boundPair("data", m.name)
	begin := p.mark()
	for _, class := range []string{"silver", "gold", "silver"} {
		p.name(claim, class)
		await(p, "the claim has "+class, claim, hasClass(class))
		pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(claim.Spec.VolumeName)}
		if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(pv), pv); err != nil || *pv.Spec.VolumeAttributesClassName != class {
			t.Errorf("the PersistentVolume has %v, %v", pv.Spec.VolumeAttributesClassName, err)
		}
	}
	rolestest.Eventually(t, "both events", func() error { return p.events(claim, "VolumeModify", "VolumeModifySuccessful") })
	p.mustWrite(begin, "csi-resizer", map[string]int{
		"patch persistentvolumeclaims/status": 6, "patch persistentvolumes": 3,
	}, 1)
	if got := m.asked(); got != "[silver gold silver]" {
		t.Errorf("the driver was asked for %s", got)
	}
}

// RZ-H1: a class that is created after the claim named it. RZ-M11: one that the driver refuses, and
// back.
func TestModifierWaitsAndRollsBack(t *testing.T) {
	p, m := modifying(t, "--retry-interval-start=1h", "--retry-interval-max=1h") // no second call for the class refused
	claim := p.boundPair("data", m.name)
	p.name(claim, "late")
	await(p, "the class is missing", claim, hasModifyStatus(corev1.PersistentVolumeClaimModifyVolumePending))
	rolestest.Eventually(t, "the event", func() error { return p.events(claim, "VolumeModifyFailed") })
	p.attributesClass("late", m.name)
	await(p, "the claim has the late class", claim, hasClass("late"))

	m.set("bad", codes.InvalidArgument)
	p.attributesClass("bad", m.name)
	p.name(claim, "bad")
	await(p, "the class is infeasible", claim, hasModifyStatus(corev1.PersistentVolumeClaimModifyVolumeInfeasible))
	p.name(claim, "late")
	await(p, "the claim is rolled back", claim, hasClass("late"))
	if got := m.asked(); got != "[late bad late]" {
		t.Errorf("the driver was asked for %s", got)
	}
}

// RZ-M12: while the outcome of one class is uncertain, no other class is sent to the driver.
func TestModifierFinishesWhatIsUncertain(t *testing.T) {
	p, m := modifying(t)
	m.set("slow", codes.Unavailable)
	p.attributesClass("slow", m.name)
	p.attributesClass("fast", m.name)
	claim := p.boundPair("data", m.name)
	p.name(claim, "slow")
	rolestest.Eventually(t, "the driver was asked", func() error {
		if m.asked() == "[]" {
			return errors.New("not yet")
		}
		return nil
	})
	p.name(claim, "fast")
	rolestest.Eventually(t, "two attempts more", func() error {
		if calls := m.called("ControllerModifyVolume"); calls < 3 {
			return fmt.Errorf("%d calls", calls)
		}
		return nil
	})
	m.set("slow", codes.OK)
	await(p, "the claim has the class that it names now", claim, hasClass("fast"))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, tier := range m.tiers {
		if tier == "fast" && i != len(m.tiers)-1 {
			t.Errorf("the driver was asked for %v", m.tiers)
		}
	}
}
