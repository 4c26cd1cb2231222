package resize

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
)

// GatherExpansion gathers the inputs of the decision about a claim that asks for another size.
func GatherExpansion(ctx context.Context, from client.Reader, key resizing.Key) (resizing.ExpansionSnapshot, error) {
	s := resizing.ExpansionSnapshot{Key: key}
	claim, err := kube.Get(ctx, from, key.NamespacedName, &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil || claim.UID != key.UID {
		return s, err
	}
	s.Claim = claim
	s.Volume, err = kube.Get(ctx, from, types.NamespacedName{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
	return s, err
}
