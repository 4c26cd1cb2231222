package resize

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"

	resizing "github.com/purser-csi/purser/internal/resize/rules"
)

// IndexResizedClaim finds the pods with a node by the claims that they name.
const IndexResizedClaim = "resizedClaim"

// Indexes are the indexes of [Gather]. They are needed where the memory can have
// OfflineOnly.
func Indexes() []kube.Index {
	return []kube.Index{kube.IndexBy(IndexResizedClaim, protection.ClaimNames)}
}

// Memory is the state of this process about one claim, beyond the API objects.
type Memory struct {
	Driver      resizing.Driver
	AnnotateFS  bool // gate AnnotateFsResize
	OfflineOnly bool // see [resizing.Snapshot]
	Retry       resizing.Retry
}

// Gather gathers the inputs of the decision about the expansion of a claim's volume.
func Gather(ctx context.Context, from client.Reader, key objects.ClaimKey, m Memory) (resizing.Snapshot,
	error,
) {
	s := resizing.Snapshot{Driver: m.Driver, AnnotateFS: m.AnnotateFS, OfflineOnly: m.OfflineOnly, Retry: m.Retry}
	var err error
	if s.Claim, s.Volume, err = ReadPair(ctx, from, key); err != nil || s.Claim == nil || !m.OfflineOnly {
		return s, err
	}
	s.Users, err = users(ctx, from, s.Claim)
	return s, err
}

func users(ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim) ([]string, error) {
	var pods corev1.PodList
	if err := from.List(ctx, &pods, client.InNamespace(claim.Namespace),
		client.MatchingFields{IndexResizedClaim: claim.Name}); err != nil {
		return nil, fmt.Errorf("read the pods that use claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	var all []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName != "" && protection.Refers(pod, claim) {
			all = append(all, pod.Name)
		}
	}
	return all, nil
}
