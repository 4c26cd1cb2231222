package protection

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

const (
	// IndexClaimUsers finds the pods with a node by the claims that they name.
	IndexClaimUsers = "protectedClaim"
	// IndexClaimReferrers finds the pods, with or without a node, by the claims that they name.
	IndexClaimReferrers = "referencedClaim"
	// IndexAttributes finds claims and volumes by the VolumeAttributesClasses that they name.
	IndexAttributes = "attributesClass"
)

// ClaimIndexes are the indexes of [GatherClaim].
func ClaimIndexes() []kube.Index {
	return []kube.Index{kube.IndexBy(IndexClaimUsers, func(pod *corev1.Pod) []string {
		if pod.Spec.NodeName == "" {
			return nil
		}
		return protection.ClaimNames(pod)
	})}
}

// UsageIndexes are the indexes of [GatherUsage].
func UsageIndexes() []kube.Index {
	return []kube.Index{kube.IndexBy(IndexClaimReferrers, protection.ClaimNames)}
}

// ClassIndexes are the indexes of [GatherClass].
func ClassIndexes() []kube.Index {
	return []kube.Index{
		{Kind: &corev1.PersistentVolumeClaim{}, Field: IndexAttributes, Values: AttributesClasses},
		{Kind: &corev1.PersistentVolume{}, Field: IndexAttributes, Values: AttributesClasses},
	}
}

// AttributesClasses returns the VolumeAttributesClasses that a claim or a volume names.
func AttributesClasses(o client.Object) []string {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		return protection.ClassesOfClaim(o)
	case *corev1.PersistentVolume:
		return protection.ClassesOfVolume(o)
	}
	return nil
}

// ClaimMemory is the state of a process about a claim that is being deleted.
type ClaimMemory struct {
	Removed bool       // this process removed the finalizer
	Answer  *PodAnswer // from the API server, not used by a decision yet; nil for none
	Asked   time.Time  // when the API server was last asked; zero for never
}

// PodAnswer is the result of a live LIST of pods for one claim.
type PodAnswer = protection.Answer

// GatherClaim gathers the inputs of the decision about the protecting finalizer of a claim.
func GatherClaim(
	ctx context.Context, from client.Reader, memory ClaimMemory, key kube.Key,
) (s protection.Claim, err error) {
	s.Object, err = kube.GetSame(ctx, from, key, &corev1.PersistentVolumeClaim{})
	if err != nil || s.Object == nil || s.Object.DeletionTimestamp == nil {
		return s, err
	}
	s.Removed, s.Asked = memory.Removed, memory.Asked
	var since string
	if memory.Answer != nil {
		s.Answer, since = memory.Answer, memory.Answer.Version
	}
	s.Users, err = claimUsers(ctx, from, s.Object, since)
	return s, err
}

// claimUsers returns the cached pods that use the claim and are newer than the given version. A pod
// that is older and is not in the answer of that version is gone.
func claimUsers(
	ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim, since string,
) ([]string, error) {
	var pods corev1.PodList
	if err := from.List(ctx, &pods, client.InNamespace(claim.Namespace),
		client.MatchingFields{IndexClaimUsers: claim.Name}); err != nil {
		return nil, fmt.Errorf("read the pods that use claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	var users []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; protection.Uses(pod, claim) && objects.IsNewer(pod.ResourceVersion, since) {
			users = append(users, pod.Name)
		}
	}
	return users, nil
}

// VolumeMemory is the state of a process about a PersistentVolume.
type VolumeMemory struct {
	Removed          bool     // this process removed the protecting finalizer
	ColocatedDrivers []string // drivers whose provisioner runs in this process; see protection.Volume
}

// GatherVolume gathers the inputs of the decision about the protecting finalizer of a
// PersistentVolume.
func GatherVolume(
	ctx context.Context, from client.Reader, memory VolumeMemory, key kube.Key,
) (s protection.Volume, err error) {
	s.Removed, s.ColocatedDrivers = memory.Removed, memory.ColocatedDrivers
	s.Object, err = kube.GetSame(ctx, from, key, &corev1.PersistentVolume{})
	return s, err
}

// ClassMemory is the state of a process about a VolumeAttributesClass.
type ClassMemory struct {
	Removed bool // this process removed the finalizer
}

// GatherClass gathers the inputs of the decision about the protecting finalizer of a
// VolumeAttributesClass.
func GatherClass(
	ctx context.Context, from client.Reader, memory ClassMemory, key kube.Key,
) (s protection.Class, err error) {
	s.Removed = memory.Removed
	s.Object, err = kube.GetSame(ctx, from, key, &storagev1.VolumeAttributesClass{})
	if err != nil || s.Object == nil || s.Object.DeletionTimestamp == nil {
		return s, err
	}
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}} {
		if err := from.List(ctx, list, client.MatchingFields{IndexAttributes: key.Name}); err != nil {
			return s, fmt.Errorf("read what uses VolumeAttributesClass %q: %w", key.Name, err)
		}
		s.Users = append(s.Users, ClassUsers(key.Name, list)...)
	}
	return s, nil
}

// ClassUsers returns the claims or volumes of a list that name the class.
func ClassUsers(class string, list client.ObjectList) []string {
	var users []string
	switch list := list.(type) {
	case *corev1.PersistentVolumeClaimList:
		for i := range list.Items {
			if claim := &list.Items[i]; slices.Contains(protection.ClassesOfClaim(claim), class) {
				users = append(users, "claim "+claim.Namespace+"/"+claim.Name)
			}
		}
	case *corev1.PersistentVolumeList:
		for i := range list.Items {
			if pv := &list.Items[i]; slices.Contains(protection.ClassesOfVolume(pv), class) {
				users = append(users, "PersistentVolume "+pv.Name)
			}
		}
	}
	return users
}

// UsageMemory is the condition Unused that a process wrote last, and the resourceVersion of the
// claim after that write.
type UsageMemory struct {
	Status  corev1.ConditionStatus
	Version string
}

// Condition returns the status of the claim's condition: the one of the own write for as long as the
// claim is older than that.
func (m UsageMemory) Condition(claim *corev1.PersistentVolumeClaim) corev1.ConditionStatus {
	if m.Version != "" && objects.IsNewer(m.Version, claim.ResourceVersion) {
		return m.Status
	}
	return protection.UnusedStatus(claim)
}

// GatherUsage gathers the inputs of the decision about the condition Unused of a claim.
func GatherUsage(
	ctx context.Context, from client.Reader, memory UsageMemory, key kube.Key,
) (s protection.Usage, err error) {
	s.Object, err = kube.GetSame(ctx, from, key, &corev1.PersistentVolumeClaim{})
	if err != nil || s.Object == nil {
		return s, err
	}
	claim := s.Object
	if s.Condition = memory.Condition(claim); !protection.TracksUse(claim) {
		return s, nil
	}
	if s.Volume, err = kube.Get(ctx, from, types.NamespacedName{Name: claim.Spec.VolumeName},
		&corev1.PersistentVolume{}); err != nil {
		return s, err
	}
	s.Users, err = ClaimReferrers(ctx, from, claim)
	return s, err
}

// ClaimReferrers returns the names of the pods that refer to the claim and have not ended, with or
// without a node.
func ClaimReferrers(ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim) ([]string, error) {
	var pods corev1.PodList
	if err := from.List(ctx, &pods, client.InNamespace(claim.Namespace),
		client.MatchingFields{IndexClaimReferrers: claim.Name}); err != nil {
		return nil, fmt.Errorf("read the pods that refer to claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	var users []string
	for i := range pods.Items {
		if protection.Refers(&pods.Items[i], claim) {
			users = append(users, pods.Items[i].Name)
		}
	}
	return users, nil
}
