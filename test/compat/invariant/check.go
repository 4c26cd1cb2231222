package invariant

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/test/compat/record"
)

const (
	boundByController = "pv.kubernetes.io/bound-by-controller"
	bindCompleted     = "pv.kubernetes.io/bind-completed"
	claimProtection   = "kubernetes.io/pvc-protection"
)

// Check returns the violations by controllers in a history. own has the resourceVersions of the
// users' writes.
func Check(history []record.Change, own map[int64]bool) (violations []string) {
	w, seesaw := newWorld(), newSeesaw()
	for _, c := range history {
		found := w.written(c, own[c.At])
		back := seesaw.moved(c)
		switch {
		case own[c.At], c.Gone, w.marked(c):
			seesaw.pushed() // a user's deletion is not in own, but counts as an action
			clear(w.overtaken)
		case !w.overtaken[c.Object.GetUID()]:
			found = append(found, back...)
		}
		for _, v := range found {
			violations = append(
				violations,
				fmt.Sprintf("%s (%s %s, resource version %d)", v, c.Kind.Name, c.Object.GetName(), c.At),
			)
		}
	}
	return violations
}

// written records a change, and returns its violations. A user's write has none.
func (w *world) written(c record.Change, own bool) []string {
	key := keyOf(c)
	claim, volume := w.claims[key], w.volumes[key.Name]
	w.apply(c)
	switch {
	case c.Kind == record.Claims && own:
		w.wished(claim, w.claims[key])
	case c.Kind == record.Claims && c.Gone:
		return w.unprotected(claim)
	case c.Kind == record.Claims:
		return w.claimWritten(claim, w.claims[key])
	case c.Kind == record.Volumes && (own || c.Gone):
		w.lost(volume, w.volumes[key.Name])
		w.regiven(volume, w.volumes[key.Name])
	case c.Kind == record.Volumes:
		return w.volumeWritten(volume, w.volumes[key.Name])
	}
	return nil
}

// claimWritten checks a claim that a controller has just written.
func (w *world) claimWritten(before, now *corev1.PersistentVolumeClaim) (found []string) {
	if before == nil || now == nil || before.UID != now.UID {
		return nil
	}
	if now.Status.Phase == corev1.ClaimBound && before.Status.Phase != corev1.ClaimBound {
		found = append(found, w.becameBound(now)...)
		delete(w.changed, now.Spec.VolumeName)
	}
	if now.Status.Phase == corev1.ClaimLost && before.Status.Phase != corev1.ClaimLost {
		w.missed(now)
	}
	if completed(now) && !completed(before) && now.Spec.VolumeName == "" {
		found = append(found, "I5: bind-completed without a volumeName")
	}
	if before.Spec.VolumeName == "" && now.Spec.VolumeName != "" {
		found = append(found, w.chosen(now)...)
	}
	if !slices.Contains(now.Finalizers, claimProtection) {
		found = append(found, w.unprotected(before)...)
	}
	return found
}

// unprotected checks a claim from which a controller has removed the protection finalizer, which
// nearly always deletes it.
func (w *world) unprotected(before *corev1.PersistentVolumeClaim) []string {
	if before == nil || !slices.Contains(before.Finalizers, claimProtection) {
		return nil
	}
	if pod := w.user(before); pod != nil && w.scheduled[pod.UID] < w.deleted[before.UID] {
		return []string{
			fmt.Sprintf("I10: the finalizer was dropped although pod %s on %s uses the claim", pod.Name, pod.Spec.NodeName),
		}
	}
	return nil
}

func completed(c *corev1.PersistentVolumeClaim) bool {
	_, ok := c.Annotations[bindCompleted]
	return ok
}

func (w *world) becameBound(now *corev1.PersistentVolumeClaim) (found []string) {
	for _, other := range w.claims {
		if other.UID != now.UID && w.keeps(other, now.Spec.VolumeName) {
			found = append(found, fmt.Sprintf("I1: Bound to %s, which %s is bound to as well", now.Spec.VolumeName, other.Name))
		}
	}
	pv := w.volumes[now.Spec.VolumeName]
	switch {
	case pv != nil && ownerOf(pv) == now.UID, w.taken(now):
	case pv == nil:
		found = append(found, fmt.Sprintf("I2: Bound to %q, which is not there", now.Spec.VolumeName))
	default:
		found = append(found, fmt.Sprintf("I2: Bound to %s, whose claimRef has not its uid", pv.Name))
	}
	return found
}

// chosen checks the volume that a controller chose. A volume that a user reserved by name, or that
// was provisioned for the claim, may have any size.
func (w *world) chosen(now *corev1.PersistentVolumeClaim) []string {
	pv := w.volumes[now.Spec.VolumeName]
	if pv == nil {
		return []string{fmt.Sprintf("I2: volumeName is %q, which is not there", now.Spec.VolumeName)}
	}
	has, wants := pv.Spec.Capacity[corev1.ResourceStorage], now.Spec.Resources.Requests[corev1.ResourceStorage]
	if has.Cmp(wants) < 0 {
		return []string{fmt.Sprintf("I6: %s has %s, the claim asks for %s", pv.Name, has.String(), wants.String())}
	}
	return nil
}

// volumeWritten checks a volume that a controller has just written.
func (w *world) volumeWritten(before, now *corev1.PersistentVolume) (found []string) {
	if before == nil || now == nil || before.UID != now.UID {
		return nil
	}
	w.given(before, now)
	if now.Status.Phase == corev1.VolumeReleased && before.Status.Phase != corev1.VolumeReleased {
		found = append(found, w.released(now)...)
	}
	was, is := before.Spec.ClaimRef, now.Spec.ClaimRef
	_, ours := before.Annotations[boundByController]
	if was != nil && !ours && (is == nil || is.Namespace != was.Namespace || is.Name != was.Name) {
		found = append(found, fmt.Sprintf("I4: a user had reserved it for %s, which was lost", was.Name))
	}
	return found
}

func (w *world) released(now *corev1.PersistentVolume) []string {
	ref := now.Spec.ClaimRef
	if ref == nil {
		return []string{"I3: Released without a claimRef"}
	}
	claim := w.claimOf(ref.UID)
	if claim == nil || claim.Spec.VolumeName != "" && claim.Spec.VolumeName != now.Name {
		return nil
	}
	if claim.Namespace != ref.Namespace || claim.Name != ref.Name { // a copy by hand, which no claim of this name has
		return nil
	}
	return []string{fmt.Sprintf("I3: Released although its claim %s is there", claim.Name)}
}
