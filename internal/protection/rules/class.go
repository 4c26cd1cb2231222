package protection

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// Class is the snapshot of one VolumeAttributesClass.
type Class struct {
	Object *storagev1.VolumeAttributesClass // nil: it does not exist
	Users  []string                         // cached claims and volumes that name it
	// LiveUsers is the answer to [ReadUsers]; nil if it was not read.
	LiveUsers *[]string
}

// ReadUsers are the claims and volumes that name the VolumeAttributesClass with the name, read live.
const ReadUsers = "users of the VolumeAttributesClass"

// DecideClass returns the next step for a VolumeAttributesClass.
func DecideClass(s Class, now time.Time) Verdict {
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
	}
	switch {
	case len(s.Users) > 0:
		return classUsed(s.Users, time.Time{}) // a change of each of them enqueues the class
	case s.LiveUsers == nil: // a stale cache may lack a claim that names the class. Upstream decides by its cache (3.3)
		return verdict.MustRead[Action](verdict.Ref{What: ReadUsers, Name: s.Object.Name})
	case len(*s.LiveUsers) > 0:
		return classUsed(*s.LiveUsers, now.Add(AskAgain)) // the cache may never show them
	}
	return act(DropFinalizer{}, verdict.AttributesClassUnprotected, "nothing uses the VolumeAttributesClass")
}

func classUsed(users []string, until time.Time) Verdict {
	return wait{Until: until, Finding: finding(verdict.AttributesClassUsed,
		"the VolumeAttributesClass is being deleted and goes when nothing uses it any more; in use by "+list(users))}
}

// ClassesOfClaim returns the VolumeAttributesClasses in a claim's spec and status, also the target of
// a modification.
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
