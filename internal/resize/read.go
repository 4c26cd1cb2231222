package resize

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// IndexResizedClaim finds the pods with a node by the claims that they name.
const IndexResizedClaim = "resizedClaim"

// Indexes are the indexes of [Read]. They are needed where the memory can have OfflineOnly.
func Indexes() []kube.Index {
	return []kube.Index{kube.IndexBy(IndexResizedClaim, protection.ClaimNames)}
}

// Read reads what a decision about an expansion asks for, which is [resizing.ReadUsers].
func Read(
	ctx context.Context, from client.Reader, s resizing.Snapshot, _ []verdict.Ref,
) (resizing.Snapshot, error) {
	var pods corev1.PodList
	if err := from.List(ctx, &pods, client.InNamespace(s.Claim.Namespace),
		client.MatchingFields{IndexResizedClaim: s.Claim.Name}); err != nil {
		return s, fmt.Errorf("read the pods that use claim %s/%s: %w", s.Claim.Namespace, s.Claim.Name, err)
	}
	s.Users = []string{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName != "" && protection.Refers(pod, s.Claim) {
			s.Users = append(s.Users, pod.Name)
		}
	}
	return s, nil
}

// ReadAttributes reads the class that a decision asks for ([resizing.ReadClass]).
func ReadAttributes(
	ctx context.Context, from client.Reader, s resizing.AttributesSnapshot, refs []verdict.Ref,
) (resizing.AttributesSnapshot, error) {
	name := refs[0].Name
	class, err := kube.Get(ctx, from, client.ObjectKey{Name: name}, &storagev1.VolumeAttributesClass{})
	if err == nil {
		s.Class, s.ClassRead = class, name
	}
	return s, err
}
