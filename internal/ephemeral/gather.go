package ephemeral

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
	"github.com/purser-csi/purser/internal/kube"
)

// IndexEphemeralClaim finds pods by the names of the claims of their ephemeral volumes.
const IndexEphemeralClaim = "ephemeralClaim"

// Indexes are the indexes of the controller of ephemeral volumes.
func Indexes() []kube.Index {
	return []kube.Index{kube.IndexBy(IndexEphemeralClaim, func(pod *corev1.Pod) []string {
		var names []string
		for _, volume := range ephemeral.Volumes(pod) {
			names = append(names, ephemeral.ClaimName(pod, volume))
		}
		return names
	})}
}

// Gather gathers the inputs of the decision about one ephemeral volume of a pod.
func Gather(ctx context.Context, from client.Reader, key ephemeral.Key) (ephemeral.Snapshot, error) {
	s := ephemeral.Snapshot{Key: key}
	pod, err := kube.Get(ctx, from, types.NamespacedName{Namespace: key.Namespace, Name: key.Pod}, &corev1.Pod{})
	if err != nil || pod == nil || pod.UID != key.UID {
		return s, err
	}
	s.Pod = pod
	s.Claim, err = readClaim(ctx, from, s)
	return s, err
}

// readClaim reads the claim that has the name of the ephemeral volume's claim; nil for none.
func readClaim(
	ctx context.Context, from client.Reader, s ephemeral.Snapshot,
) (*corev1.PersistentVolumeClaim, error) {
	name := types.NamespacedName{Namespace: s.Pod.Namespace, Name: ephemeral.ClaimName(s.Pod, s.Key.Volume)}
	return kube.Get(ctx, from, name, &corev1.PersistentVolumeClaim{})
}
