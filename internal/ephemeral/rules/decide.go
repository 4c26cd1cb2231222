package ephemeral

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is the decision of this package.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Key is one volume of one pod.
type Key struct {
	Namespace, Pod string
	UID            types.UID // of the pod
	Volume         string
}

// Snapshot has the inputs of a decision about one volume of a pod.
type Snapshot struct {
	Key    Key
	Pod    *corev1.Pod                   // nil: it does not exist, or has another uid
	Claim  *corev1.PersistentVolumeClaim // of the name that belongs to the volume; nil for none
	IsLive bool                          // Claim was read live
}

// ReadClaim asks for the claim of the name that belongs to the volume, read live.
const ReadClaim = "PersistentVolumeClaim"

// Action is the only thing to do.
type Action struct{ Create *corev1.PersistentVolumeClaim }

// Decide returns what to do for a volume of a pod.
func Decide(s Snapshot) Verdict {
	switch {
	case s.Pod == nil:
		return idle(verdict.PodGone, "the pod does not exist any more")
	case !Wants(s.Pod): // upstream gives a claim to a pod that has finished (3.6)
		return idle(verdict.PodEnded, "the pod is being deleted or has finished, and gets no claims any more")
	}
	volume := s.volume()
	if volume == nil {
		return idle(verdict.PodGone, "the pod has no such ephemeral volume")
	}
	name := ClaimName(s.Pod, volume.Name)
	switch {
	case s.Claim != nil && metav1.IsControlledBy(s.Claim, s.Pod):
		return idle(verdict.EphemeralReady, "the claim of the ephemeral volume exists")
	case s.Claim != nil:
		return refuse{
			Finding: s.finding(verdict.EphemeralTaken,
				fmt.Sprintf("PVC %s/%s was not created for pod %s/%s (pod is not owner)",
					s.Pod.Namespace, name, s.Pod.Namespace, s.Pod.Name)),
		}
	case volume.Ephemeral.VolumeClaimTemplate == nil:
		return refuse{Finding: s.finding(verdict.EphemeralFailed, "volumeClaimTemplate is empty")}
	}
	then := idle(verdict.EphemeralCreated, "the claim of the ephemeral volume is created")
	return do{
		Finding: then.Because(),
		Actions: []Action{{claimFor(s.Pod, name, volume.Ephemeral.VolumeClaimTemplate)}},
		Then:    then,
	}
}

// CreateFailure is the error of creating a claim.
type CreateFailure struct {
	Exists  bool // there is a claim with the name
	Message string
}

// AfterCreate returns what follows when the claim could not be created. A claim that exists shows that
// the cache is stale: it is read live, once.
func AfterCreate(s Snapshot, claim string, f CreateFailure) Verdict {
	if f.Exists && !s.IsLive {
		return verdict.MustRead[Action](verdict.Ref{What: ReadClaim, Namespace: s.Pod.Namespace, Name: claim})
	}
	return refuse{Finding: s.finding(verdict.EphemeralFailed, fmt.Sprintf("create PVC %s: %s", claim, f.Message))}
}

// Wants reports whether the pod may still run, so that it needs its claims.
func Wants(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded &&
		pod.Status.Phase != corev1.PodFailed
}

// Volumes returns the names of the ephemeral volumes of a pod.
func Volumes(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			names = append(names, pod.Spec.Volumes[i].Name)
		}
	}
	return names
}

// ClaimName returns the name of the claim of an ephemeral volume. Volumes of different pods may
// have the same name: a with b-c, and a-b with c.
func ClaimName(pod *corev1.Pod, volume string) string { return pod.Name + "-" + volume }

func (s Snapshot) volume() *corev1.Volume {
	i := slices.IndexFunc(
		s.Pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == s.Key.Volume && v.Ephemeral != nil },
	)
	if i < 0 {
		return nil
	}
	return &s.Pod.Spec.Volumes[i]
}

func (s Snapshot) finding(reason verdict.Reason, message string) verdict.Finding {
	return verdict.Because(reason, "ephemeral volume %s: %s", s.Key.Volume, message)
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: verdict.Because(reason, "%s", message)}
}

// claimFor returns the claim as upstream writes it. The garbage collector deletes it with the pod.
func claimFor(
	pod *corev1.Pod, name string, template *corev1.PersistentVolumeClaimTemplate,
) *corev1.PersistentVolumeClaim {
	template = template.DeepCopy()
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true),
				BlockOwnerDeletion: new(true),
			}},
		},
		Spec: template.Spec,
	}
}
