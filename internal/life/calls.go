package life

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// subject has the names by which calls and decisions are about one volume.
type subject struct {
	objects []string // NAMESPACE/NAME of a claim, NAME of a PersistentVolume
	volumes []string // the handle, and names in requests that create the volume
}

func (s *subject) addClaim(claim *corev1.PersistentVolumeClaim) {
	s.objects = append(s.objects, claim.Namespace+"/"+claim.Name)
	s.volumes = append(s.volumes, "pvc-"+string(claim.UID))
}

func (s *subject) addVolume(pv *corev1.PersistentVolume) {
	s.objects, s.volumes = append(s.objects, pv.Name), append(s.volumes, pv.Name)
	if pv.Spec.CSI != nil {
		s.volumes = append(s.volumes, pv.Spec.CSI.VolumeHandle)
	}
}

func (s *subject) isOf(c Call) bool {
	return c.Volume != "" && slices.Contains(s.volumes, c.Volume) ||
		c.Object != "" && slices.Contains(s.objects, c.Object)
}

// CallsAbout returns those calls and decisions that are about a claim, a volume, or the claims of a pod, in
// order of their begin.
func CallsAbout(c *explain.Cluster, ref explain.Ref, calls []Call) (all []Call) {
	if len(calls) == 0 {
		return nil
	}
	of := subjectOf(c, ref)
	for _, call := range calls {
		if of.isOf(call) {
			all = append(all, call)
		}
	}
	slices.SortStableFunc(all, func(a, b Call) int { return a.From.Compare(b.From) })
	return all
}

func subjectOf(c *explain.Cluster, ref explain.Ref) (s subject) {
	claims := []string{ref.Name}
	switch ref.Kind {
	case explain.Claim, explain.Volume:
	case explain.Pod:
		claims = s.addPod(c, ref)
	default:
		return s
	}
	s.addVolumes(c, ref, claims)
	for _, claim := range c.Claims {
		isNamed := claim.Namespace == ref.Namespace && slices.Contains(claims, claim.Name)
		if ref.Kind != explain.Volume && isNamed || ref.Kind == explain.Volume && claim.Spec.VolumeName == ref.Name {
			s.addClaim(claim)
		}
	}
	return s
}

// addPod adds the pod, and returns the names of its claims.
func (s *subject) addPod(c *explain.Cluster, ref explain.Ref) (claims []string) {
	for _, pod := range c.Pods {
		if pod.Namespace == ref.Namespace && pod.Name == ref.Name {
			claims = protection.ClaimNames(pod)
			s.objects = append(s.objects, pod.Namespace+"/"+pod.Name)
		}
	}
	return claims
}

// addVolumes adds the volume that is meant, or those of the claims.
func (s *subject) addVolumes(c *explain.Cluster, ref explain.Ref, claims []string) {
	for _, pv := range c.Volumes {
		of := pv.Spec.ClaimRef
		isOf := ref.Kind != explain.Volume && of != nil && of.Namespace == ref.Namespace &&
			slices.Contains(claims, of.Name)
		if isOf || ref.Kind == explain.Volume && pv.Name == ref.Name {
			s.addVolume(pv)
		}
	}
}
