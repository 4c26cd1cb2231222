package resize

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
)

// IndexTargetClass finds the claims whose volume is to get a VolumeAttributesClass.
const IndexTargetClass = "targetVolumeAttributesClass"

// AttributesIndexes are the indexes of the controller of VolumeAttributesClasses.
func AttributesIndexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(IndexTargetClass, func(claim *corev1.PersistentVolumeClaim) []string {
			if target := resizing.Target(claim); target != "" && resizing.AttributesConcerns(claim) {
				return []string{target}
			}
			return nil
		}),
	}
}

// AttributesMemory is the state of this process about one claim, beyond the API objects.
type AttributesMemory struct {
	Driver resizing.AttributesDriver
	Retry  resizing.AttributesRetry
}

// GatherAttributes gathers the inputs of the decision about the VolumeAttributesClass of a claim's volume.
func GatherAttributes(
	ctx context.Context, from client.Reader, key objects.ClaimKey, m AttributesMemory,
) (resizing.AttributesSnapshot, error) {
	s := resizing.AttributesSnapshot{Driver: m.Driver, Retry: m.Retry}
	var err error
	if s.Claim, s.Volume, err = ReadPair(ctx, from, key); err != nil || s.Claim == nil {
		return s, err
	}
	if target := resizing.Target(s.Claim); target != "" {
		s.Class, err = kube.Get(ctx, from, types.NamespacedName{Name: target}, &storagev1.VolumeAttributesClass{})
	}
	return s, err
}
