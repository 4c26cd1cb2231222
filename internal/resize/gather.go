package resize

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
)

// Here reports whether a volume is on the node of this instance; nil for an instance that serves all nodes.
type Here func(*corev1.PersistentVolume) bool

// isElsewhere returns false for a volume that the cache does not have.
func (h Here) isElsewhere(pv *corev1.PersistentVolume) bool { return h != nil && pv != nil && !h(pv) }

// Memory is the state of this process about one claim, beyond the API objects.
type Memory struct {
	Driver      resizing.Driver
	Here        Here
	AnnotateFS  bool // gate AnnotateFsResize
	OfflineOnly bool // see [resizing.Snapshot]
	Retry       resizing.Retry
}

// Gather gathers the inputs of the decision about the expansion of a claim's volume.
func Gather(ctx context.Context, from client.Reader, key objects.ClaimKey, m Memory) (resizing.Snapshot, error) {
	s := resizing.Snapshot{Driver: m.Driver, AnnotateFS: m.AnnotateFS, OfflineOnly: m.OfflineOnly, Retry: m.Retry}
	var err error
	s.Claim, s.Volume, err = pair(ctx, from, key)
	s.Elsewhere = m.Here.isElsewhere(s.Volume)
	return s, err
}

// AttributesMemory is the state of this process about one claim, beyond the API objects.
type AttributesMemory struct {
	Driver resizing.AttributesDriver
	Here   Here
	Retry  resizing.AttributesRetry
}

// GatherAttributes gathers the inputs of the decision about the VolumeAttributesClass of a claim's volume.
func GatherAttributes(
	ctx context.Context, from client.Reader, key objects.ClaimKey, m AttributesMemory,
) (resizing.AttributesSnapshot, error) {
	s := resizing.AttributesSnapshot{Driver: m.Driver, Retry: m.Retry}
	var err error
	s.Claim, s.Volume, err = pair(ctx, from, key)
	s.Elsewhere = m.Here.isElsewhere(s.Volume)
	return s, err
}

// GatherExpansion gathers the inputs of the decision about a claim that asks for another size.
func GatherExpansion(ctx context.Context, from client.Reader, key resizing.Key) (resizing.ExpansionSnapshot, error) {
	s := resizing.ExpansionSnapshot{Key: key}
	var err error
	s.Claim, s.Volume, err = pair(ctx, from, objects.ClaimKey{NamespacedName: key.NamespacedName, UID: key.UID})
	return s, err
}

// pair reads a claim and the volume that it names. Each is nil if it does not exist; the claim also if
// another one has its name by now.
func pair(
	ctx context.Context, from client.Reader, key objects.ClaimKey,
) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	claim, err := kube.GetSame(ctx, from, kube.Key(key), &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil || claim.Spec.VolumeName == "" {
		return claim, nil, err
	}
	pv, err := kube.Get(ctx, from, types.NamespacedName{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
	return claim, pv, err
}
