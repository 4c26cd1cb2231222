package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

// modifyAlone is the resizer where users name other VolumeAttributesClasses.
var modifyAlone = &processSet{
	ours: []role{csiResizer}, startOthers: startNode, check: end.ofResizer, disturb: nameAnotherClass, kinds: kindsOfResizer,
}

// The classes. The driver refuses the last one.
const (
	bronze, silver, gold = "bronze", "silver", "gold"
	refusedClass         = "refused"
)

// keyClass is the parameter by which the driver knows the class.
const keyClass = "class"

// classed creates bound pairs of the class bronze.
func classed(handles ...string) func(*user) {
	return func(u *user) {
		sized(handles...)(u)
		for _, class := range []string{bronze, silver, gold, refusedClass} {
			_ = u.api.Create(u.world.ctx, &storagev1.VolumeAttributesClass{
				ObjectMeta: metav1.ObjectMeta{Name: class}, DriverName: driverName, Parameters: map[string]string{keyClass: class},
			})
		}
		for _, name := range handles {
			u.world.driver.SetClass(name, bronze)
			claim := u.get(name)
			claim.Spec.VolumeAttributesClassName = new(bronze)
			_ = u.api.Update(u.world.ctx, claim)
			claim.Status.CurrentVolumeAttributesClassName = new(bronze)
			_ = u.api.Status().Update(u.world.ctx, claim)
			pv := &corev1.PersistentVolume{}
			_ = u.api.Get(u.world.ctx, client.ObjectKey{Name: name}, pv)
			pv.Spec.VolumeAttributesClassName = new(bronze)
			_ = u.api.Update(u.world.ctx, pv)
		}
	}
}

// name edits the class of a claim.
func (u *user) name(claim, class string) {
	u.step()
	u.try(func() error { return u.world.nameClass(claim, class) })
}

func (w *world) nameClass(name, class string) error {
	claim, api := &corev1.PersistentVolumeClaim{}, w.server.Client()
	if err := api.Get(w.ctx, client.ObjectKey{Namespace: claimNamespace, Name: name}, claim); err != nil {
		return err
	}
	claim.Spec.VolumeAttributesClassName = &class
	err := api.Update(w.ctx, claim)
	w.log("user names class %s for claim %s: %v", class, name, err)
	return err
}

// untilClass waits until a claim has the class that it names.
func (u *user) untilClass(name string) {
	u.until(func() bool {
		claim := u.get(name)
		return claim == nil || hasItsClass(claim)
	})
}

func hasItsClass(claim *corev1.PersistentVolumeClaim) bool {
	named, current := claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName
	return ptr.Deref(named, "") == ptr.Deref(current, "") && claim.Status.ModifyVolumeStatus == nil
}

func (u *user) untilInfeasible(name string) {
	u.until(func() bool {
		claim := u.get(name)
		return claim == nil || claim.Status.ModifyVolumeStatus != nil &&
			claim.Status.ModifyVolumeStatus.Status == corev1.PersistentVolumeClaimModifyVolumeInfeasible
	})
}

// nameAnotherClass is the action of the user that the sweep puts at every operation.
func nameAnotherClass(w *world) {
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		_ = w.nameClass(claim.Name, gold)
	}
}

var modifyWorkloads = []workload{
	{name: "a class and back", small: true, writes: 6, setup: classed("x"), script: func(u *user) {
		u.name("x", silver)
		u.untilClass("x")
		u.name("x", bronze)
		u.untilClass("x")
	}, processSet: modifyAlone},
	{name: "a class that the driver refuses, and back", small: true, repeated: true, setup: classed("x"), script: func(u *user) {
		u.name("x", refusedClass)
		u.untilInfeasible("x")
		u.name("x", bronze)
		u.untilClass("x")
	}, processSet: modifyAlone},
	{name: "another class during a modification", small: true, contested: true, setup: classed("x"), script: func(u *user) {
		u.name("x", silver)
		u.pause(2 * time.Millisecond)
		u.name("x", gold)
		u.untilClass("x")
	}, processSet: modifyAlone},
	{name: "a claim grows and changes its class", small: true, contested: true, setup: classed("x"), script: func(u *user) {
		u.name("x", silver)
		u.ask("x", "2Gi")
		u.untilClass("x")
		u.untilSize("x")
	}, processSet: modifyAlone},
}

// modifying checks the invariants of classes at each call and write. It is safe for concurrent use.
type modifying struct {
	world *world

	mu      sync.Mutex
	unknown map[string]string // class whose outcome the last caller does not know, by volume
}

// begin records a call with a class. No other class may be uncertain. Calls of a previous leader
// cannot be cancelled, so they do not count.
func (m *modifying) begin(p *process, call csidriver.Modification) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.world.processes.hasNewer(p) {
		return
	}
	if other := m.unknown[call.Volume]; other != "" && other != call.Class {
		m.world.violate("RZ-M12: class %s is asked for volume %s while the outcome of %s is unknown", call.Class, call.Volume, other)
	}
	if m.world.driver.Class(call.Volume) != call.Class { // else a repetition changes nothing
		m.unknown[call.Volume] = call.Class
	}
}

// end notes the answer that the caller got.
func (m *modifying) end(call csidriver.Modification, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	final := err == nil || !csispec.IsUncertainOrExhausted(status.Code(err))
	if final && m.unknown[call.Volume] == call.Class {
		delete(m.unknown, call.Volume)
	}
}

// onlyWhatWasAccepted is checked after each write: no object says that a volume has a class which the
// driver never accepted.
func (m *modifying) onlyWhatWasAccepted() {
	for _, claim := range apiserver.Objects(m.world.server, &corev1.PersistentVolumeClaim{}) {
		m.accepted("claim "+claim.Name, claim.Spec.VolumeName, claim.Status.CurrentVolumeAttributesClassName)
	}
	for _, pv := range apiserver.Objects(m.world.server, &corev1.PersistentVolume{}) {
		m.accepted("PersistentVolume "+pv.Name, pv.Spec.CSI.VolumeHandle, pv.Spec.VolumeAttributesClassName)
	}
}

func (m *modifying) accepted(object, handle string, class *string) {
	accepted := m.world.driver.Accepted(handle)
	if says := ptr.Deref(class, ""); says != "" && !slices.Contains(accepted, says) {
		m.world.violate("RZ-M10: %s says class %s, and the driver accepted only %v", object, says, accepted)
	}
}

func (d gatedDriver) ControllerModifyVolume(
	ctx context.Context, in *csi.ControllerModifyVolumeRequest, _ ...grpc.CallOption,
) (*csi.ControllerModifyVolumeResponse, error) {
	w := d.process.world
	call := csidriver.Modification{Volume: in.GetVolumeId(), Class: in.GetMutableParameters()[keyClass]}
	defer d.process.occupy(call.Volume, "ControllerModifyVolume")()
	err := d.process.do(op{text: fmt.Sprintf("ControllerModifyVolume %s %s", call.Volume, call.Class), call: true}, func(n int) error {
		w.modifying.begin(d.process, call)
		return w.driver.Modify(ctx, call, w.schedule.faultOf(n), func() error {
			if call.Class == refusedClass {
				return status.Error(codes.InvalidArgument, "there is no such class")
			}
			return nil
		})
	})
	if d.process.isDead() {
		err = errDead
	}
	w.modifying.end(call, asCall(err))
	return &csi.ControllerModifyVolumeResponse{}, asCall(err)
}

// classesAreThoseOfTheClaims checks the end of a run: claim, PersistentVolume and driver agree.
func (e end) classesAreThoseOfTheClaims() {
	e.modifying.onlyWhatWasAccepted()
	for volume, class := range e.modifying.unknown {
		e.violate("RZ-M12: the outcome of class %s for volume %s stays unknown", class, volume)
	}
	for _, claim := range e.claims {
		named := ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
		if named != "" && named != refusedClass && (!hasItsClass(claim) || e.driver.Class(claim.Spec.VolumeName) != named) {
			e.violate("RZ-M10: claim %s names class %s, its status has %v and %+v, the driver has %s", claim.Name, named,
				ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, ""), claim.Status.ModifyVolumeStatus, e.driver.Class(claim.Spec.VolumeName))
		}
	}
	for _, pv := range e.volumes {
		has := e.driver.Class(pv.Spec.CSI.VolumeHandle)
		if says := ptr.Deref(pv.Spec.VolumeAttributesClassName, ""); says != has {
			e.violate("RZ-M10: PersistentVolume %s says class %q, the driver has %q", pv.Name, says, has)
		}
	}
}
