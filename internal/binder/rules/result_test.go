package binding

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// step is one action of a verdict, or how the run ends. Each action of snapshot.go has a function
// below that writes it; the text is the call itself, as it stands in a row.
type step string

// mark says that Purser chose the volume, not the user (C3).
type mark string

// precondition says what must hold for a write.
type precondition string

const (
	ours        mark         = "ours"
	ifUnchanged precondition = "ifUnchanged" // the write has the resourceVersion of the volume
)

// steps are all steps of a verdict, in their order.
func steps(all ...step) step {
	var texts []string
	for _, one := range all {
		texts = append(texts, string(one))
	}
	return step(strings.Join(texts, ", "))
}

// call writes a step: names of objects are quoted, all other arguments are written as they are.
func call[A any](function string, arguments ...A) step {
	var texts []string
	for _, argument := range arguments {
		texts = append(texts, fmt.Sprintf("%#v", argument))
	}
	return step(function + "(" + strings.Join(texts, ", ") + ")")
}

// How a run ends.

// ends: there is nothing to do.
func ends(because verdict.Reason) step { return step("ends(verdict." + because + ")") }

// waits: another component acts next.
func waits(because verdict.Reason) step { return step("waits(verdict." + because + ")") }

// refuses: what the claim asks for cannot be had.
func refuses(because verdict.Reason) step { return step("refuses(verdict." + because + ")") }

// readsLive: the "claim", the "volume" that it names or both are read from the API server, and it is
// decided again.
func readsLive(what ...string) step { return call("readsLive", what...) }

// The four writes of a binding, and what is held in memory before them.

// reserves holds the free volume for the claim.
func reserves(volume string) step { return call("reserves", volume) }

// setsClaimRef is the first write (W1): the volume's claimRef gets the claim and its uid.
func setsClaimRef(volume string, marks ...mark) step { return written("setsClaimRef", volume, marks) }

// bindsVolume is the second write (W2) alone: the volume's phase becomes Bound.
func bindsVolume(volume string) step { return call("bindsVolume", volume) }

// bindsClaim is the third write (W3) alone: the claim gets the volume's name and bind-completed.
func bindsClaim(volume string, marks ...mark) step { return written("bindsClaim", volume, marks) }

// bindsBoth is W2 and W3.
func bindsBoth(volume string, marks ...mark) step { return written("bindsBoth", volume, marks) }

// setsClaimBound is the fourth write (W4): the claim's phase becomes Bound, with this capacity.
func setsClaimBound(capacity string) step { return call("setsClaimBound", capacity) }

// Other writes to the claim.

// setsClaimPending takes back a status that says more.
func setsClaimPending() step { return "setsClaimPending()" }

// setsClaimLost makes the claim's phase Lost.
func setsClaimLost() step { return "setsClaimLost()" }

// setsClassName gives the claim the default class.
func setsClassName(class string) step { return call("setsClassName", class) }

// setsProvisioner asks an external provisioner by the annotation storage-provisioner.
func setsProvisioner(driver string) step { return call("setsProvisioner", driver) }

// handsOver gives the claim to the provisioner in this process.
func handsOver(driver string) step { return call("handsOver", driver) }

// Other writes to volumes.

// setsPhase sets the phase of a volume that is not bound.
func setsPhase(volume string, phase corev1.PersistentVolumePhase, when ...precondition) step {
	return written("setsPhase", volume, append([]precondition{precondition("corev1.Volume" + phase)}, when...))
}

// clearsClaimRef makes the volume free for any claim.
func clearsClaimRef(volume string) step { return call("clearsClaimRef", volume) }

// clearsClaimUID makes the volume free for the next claim of the same name.
func clearsClaimUID(volume string) step { return call("clearsClaimUID", volume) }

// movesVolume makes the volume free for a claim of another name.
func movesVolume(volume, claim string) step { return call("movesVolume", volume, claim) }

// Writes to either.

// setsMigratedTo sets the annotation migrated-to, or removes it ("" for the driver), and these
// finalizers of the volume.
func setsMigratedTo(driver string, finalizers ...string) step {
	return call("setsMigratedTo", append([]string{driver}, finalizers...)...)
}

// emitsOnVolume emits an event about the volume.
func emitsOnVolume(reason verdict.Reason) step { return step("emitsOnVolume(verdict." + reason + ")") }

// emitsOnClaim emits an event about the claim.
func emitsOnClaim(reason verdict.Reason) step { return step("emitsOnClaim(verdict." + reason + ")") }

func written[T ~string](function, volume string, more []T) step {
	text := fmt.Sprintf("%s(%q", function, volume)
	for _, m := range more {
		text += ", " + string(m)
	}
	return step(text + ")")
}

// stepsOf writes a verdict as the rows of the tables do.
func stepsOf(v Verdict) step {
	var all []step
	for v != nil {
		switch now := v.(type) {
		case do:
			for _, a := range now.Actions {
				all = append(all, stepOf(a))
			}
			v = now.Then
			continue
		case nothing:
			all = append(all, ends(now.Reason))
		case wait:
			all = append(all, waits(now.Reason))
		case refuse:
			all = append(all, refuses(now.Reason))
		case verdict.Read[Action]:
			all = append(all, readStep(now.Refs))
		}
		break
	}
	return steps(all...)
}

func stepOf(a Action) step {
	switch a := a.(type) {
	case Reserve:
		return reserves(a.Volume.Name)
	case ClaimVolume:
		return setsClaimRef(a.Volume.Name, marksOf(a.Mark)...)
	case Complete:
		switch {
		case a.Claim == nil:
			return bindsVolume(a.Volume.Name)
		case a.Volume == nil:
			return bindsClaim(a.Name, marksOf(a.Mark)...)
		}
		return bindsBoth(a.Name, marksOf(a.Mark)...)
	case SetClaimStatus:
		return statusStep(a.Status)
	case SetVolumePhase:
		if a.AsSeen {
			return setsPhase(a.Volume.Name, a.Phase, ifUnchanged)
		}
		return setsPhase(a.Volume.Name, a.Phase)
	case Unbind:
		return unbindStep(a)
	case AssignClass:
		return setsClassName(a.Class)
	case AskProvisioner:
		return setsProvisioner(a.Driver)
	case HandOver:
		return handsOver(a.Driver)
	case SetMigration:
		return setsMigratedTo(a.Driver, a.Finalizers...)
	case Tell:
		if a.Volume != nil {
			return emitsOnVolume(a.Finding.Reason)
		}
		return emitsOnClaim(a.Finding.Reason)
	}
	return step(fmt.Sprintf("%T", a))
}

func marksOf(isOurs bool) []mark {
	if isOurs {
		return []mark{ours}
	}
	return nil
}

// statusStep shows a status that is cleared, or not, against the rule of its phase as it is.
func statusStep(s ClaimStatus) step {
	capacity := s.Capacity[corev1.ResourceStorage]
	switch {
	case s.Phase == corev1.ClaimBound && !s.Cleared:
		return setsClaimBound(capacity.String())
	case s.Phase == corev1.ClaimPending && s.Cleared:
		return setsClaimPending()
	case s.Phase == corev1.ClaimLost && s.Cleared:
		return setsClaimLost()
	}
	return step(fmt.Sprintf("%+v", s))
}

func unbindStep(a Unbind) step {
	switch {
	case a.Whole:
		return clearsClaimRef(a.Volume.Name)
	case a.For.Name != "":
		return movesVolume(a.Volume.Name, a.For.String())
	}
	return clearsClaimUID(a.Volume.Name)
}

func readStep(refs []verdict.Ref) step {
	var what []string
	for _, ref := range refs {
		what = append(what, map[string]string{ReadClaim: "claim", ReadVolume: "volume", ReadOffer: "offer"}[ref.What])
	}
	return readsLive(what...)
}
