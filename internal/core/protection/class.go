package protection

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Class is the world around one VolumeAttributesClass.
type Class struct {
	Object  *storagev1.VolumeAttributesClass // nil: it does not exist
	Removed bool                             // this process removed the finalizer, which a stale cache may still show
	Users   []string                         // cached claims and volumes that name it
}

// DecideClass says what to do for a VolumeAttributesClass.
func DecideClass(s Class) Verdict {
	if s.Object == nil {
		return idle(verdict.AttributesClassGone, "the VolumeAttributesClass does not exist")
	}
	switch stateOf(s.Object, names.FinalizerVACProtection) {
	case bare:
		return act(
			AddFinalizer{},
			verdict.AttributesClassProtected,
			"the VolumeAttributesClass got the finalizer "+names.FinalizerVACProtection,
		)
	case protected:
		return idle(verdict.AttributesClassProtected, "the VolumeAttributesClass is protected")
	case let:
		return idle(
			verdict.AttributesClassUnprotected,
			"the VolumeAttributesClass is being deleted and is not held by its protection",
		)
	case going:
		if s.Removed {
			return removed(verdict.AttributesClassUnprotected, "VolumeAttributesClass")
		}
	}
	if len(s.Users) > 0 {
		return classUsed(s.Users, time.Time{}) // a change of each of them wakes us up
	}
	// Memory may not have a claim yet that names the class. Upstream goes by memory, and says so in
	// its code (3.3).
	return do{
		Finding: finding(verdict.AttributesClassConfirming, "the API server is asked who uses the VolumeAttributesClass"),
		Actions: []Action{Ask{}},
	}
}

// AfterAsking says what follows from the API server's answer about a class.
func AfterAsking(users []string, now time.Time) Verdict {
	if len(users) > 0 {
		return classUsed(users, now.Add(AskAgain)) // memory may never see them
	}
	return act(DropFinalizer{}, verdict.AttributesClassUnprotected, "nothing uses the VolumeAttributesClass")
}

func classUsed(users []string, until time.Time) Verdict {
	return wait{Until: until, Finding: finding(verdict.AttributesClassUsed,
		"the VolumeAttributesClass is being deleted and goes when nothing uses it any more; in use by "+list(users))}
}

// ClassesOfClaim are the VolumeAttributesClasses that a claim asks for, has, or is about to get.
func ClassesOfClaim(claim *corev1.PersistentVolumeClaim) []string {
	var target *string
	if m := claim.Status.ModifyVolumeStatus; m != nil {
		target = &m.TargetVolumeAttributesClassName
	}
	return present(claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName, target)
}

// ClassesOfVolume is the VolumeAttributesClass of a PersistentVolume.
func ClassesOfVolume(pv *corev1.PersistentVolume) []string {
	return present(pv.Spec.VolumeAttributesClassName)
}

func present(names ...*string) []string {
	var all []string
	for _, name := range names {
		if name != nil && *name != "" && !slices.Contains(all, *name) {
			all = append(all, *name)
		}
	}
	return all
}
