package world

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/core/resizing"
	"github.com/purser-csi/purser/internal/kube"
)

// IndexResizedClaim finds the pods with a node by the claims that they name.
const IndexResizedClaim = "resizedClaim"

// ResizingIndexes are the indexes of [Resizing]. They are needed where the memory can have
// OfflineOnly.
func ResizingIndexes() []Index {
	return []Index{{&corev1.Pod{}, IndexResizedClaim, IndexFunc(protection.ClaimNames)}}
}

// ResizingMemory is the state of this process about one claim, beyond the API objects.
type ResizingMemory struct {
	Driver      resizing.Driver
	AnnotateFS  bool // gate AnnotateFsResize
	OfflineOnly bool // see [resizing.Snapshot]
	Retry       resizing.Retry
}

// Resizing gathers the inputs of the decision about the expansion of a claim's volume.
func Resizing(ctx context.Context, from client.Reader, key objects.ClaimKey, m ResizingMemory) (resizing.Snapshot,
	error,
) {
	s := resizing.Snapshot{Driver: m.Driver, AnnotateFS: m.AnnotateFS, OfflineOnly: m.OfflineOnly, Retry: m.Retry}
	var err error
	if s.Claim, s.Volume, err = boundPair(ctx, from, key); err != nil || s.Claim == nil || !m.OfflineOnly {
		return s, err
	}
	s.Users, err = users(ctx, from, s.Claim)
	return s, err
}

// boundPair reads a claim and the volume that it names. Each is nil if it does not exist; the claim
// also if another one has its name by now.
func boundPair(
	ctx context.Context, from client.Reader, key objects.ClaimKey,
) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	claim, err := kube.Get(ctx, from, key.NamespacedName, &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil || claim.UID != key.UID {
		return nil, nil, err
	}
	if claim.Spec.VolumeName == "" {
		return claim, nil, nil
	}
	pv, err := kube.Get(ctx, from, types.NamespacedName{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
	return claim, pv, err
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
