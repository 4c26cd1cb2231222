package world

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/attributes"
	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/kube"
)

// IndexTargetClass finds the claims whose volume is to get a VolumeAttributesClass.
const IndexTargetClass = "targetVolumeAttributesClass"

// ModificationIndexes are the indexes of the controller of VolumeAttributesClasses.
func ModificationIndexes() []Index {
	return []Index{{
		&corev1.PersistentVolumeClaim{}, IndexTargetClass,
		IndexFunc(func(claim *corev1.PersistentVolumeClaim) []string {
			if target := attributes.Target(claim); target != "" && attributes.Concerns(claim) {
				return []string{target}
			}
			return nil
		}),
	}}
}

// ModificationMemory is the state of this process about one claim, beyond the API objects.
type ModificationMemory struct {
	Driver attributes.Driver
	Retry  attributes.Retry
}

// Modification gathers the inputs of the decision about the VolumeAttributesClass of a claim's volume.
func Modification(
	ctx context.Context, from client.Reader, key objects.ClaimKey, m ModificationMemory,
) (attributes.Snapshot, error) {
	s := attributes.Snapshot{Driver: m.Driver, Retry: m.Retry}
	var err error
	if s.Claim, s.Volume, err = boundPair(ctx, from, key); err != nil || s.Claim == nil {
		return s, err
	}
	if target := attributes.Target(s.Claim); target != "" {
		s.Class, err = kube.Get(ctx, from, types.NamespacedName{Name: target}, &storagev1.VolumeAttributesClass{})
	}
	return s, err
}
