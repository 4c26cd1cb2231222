package populate

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
)

// Action is one write. Each has the object as it was decided on: its uid, and where a newer state of the
// object would change the decision its resourceVersion, are preconditions.
type Action interface{ action() }

type (
	// AddFinalizer adds the finalizer to the user's claim.
	AddFinalizer struct{ Claim *corev1.PersistentVolumeClaim }
	// CreatePrime creates the prime claim.
	CreatePrime struct{ Prime *corev1.PersistentVolumeClaim }
	// CopyNode copies the selected node of the user's claim to the prime claim.
	CopyNode struct {
		Prime *corev1.PersistentVolumeClaim
		Node  string
	}
	// ReturnNode removes the selected node from the user's claim, so that the scheduler selects another.
	ReturnNode struct{ Claim *corev1.PersistentVolumeClaim }
	// CreatePod creates the pod that writes the data.
	CreatePod struct{ Failed int }
	// CountFailure writes the number of failed pods to the prime claim.
	CountFailure struct {
		Prime  *corev1.PersistentVolumeClaim
		Failed int
	}
	// DeletePod deletes the pod.
	DeletePod struct{ Pod *corev1.Pod }
	// Rebind writes the user's claim to spec.claimRef of the volume.
	Rebind struct {
		Volume *corev1.PersistentVolume
		Claim  *corev1.PersistentVolumeClaim
		From   string // NAMESPACE/NAME of the source
	}
	// DeletePrime deletes the prime claim.
	DeletePrime struct{ Prime *corev1.PersistentVolumeClaim }
	// DropFinalizer removes the finalizer from the user's claim.
	DropFinalizer struct{ Claim *corev1.PersistentVolumeClaim }
)

func (AddFinalizer) action()  {}
func (CreatePrime) action()   {}
func (CopyNode) action()      {}
func (ReturnNode) action()    {}
func (CreatePod) action()     {}
func (CountFailure) action()  {}
func (DeletePod) action()     {}
func (Rebind) action()        {}
func (DeletePrime) action()   {}
func (DropFinalizer) action() {}

// Marks returns the label and the annotation of the objects that are made for a claim.
func (s Settings) Marks(claim *corev1.PersistentVolumeClaim) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: s.Namespace,
		Labels:    map[string]string{s.Label(): string(claim.UID), "app.kubernetes.io/managed-by": "purser"},
		Annotations: map[string]string{
			s.ClaimAnnotation(): claim.Namespace + "/" + claim.Name,
		},
	}
}

// NewPrime returns the prime claim for a claim (VP-8). It has the class of attributes too (VP-H3), and
// the selector, which most provisioners refuse: without it, the volume would be one that the claim does
// not select.
func (s Settings) NewPrime(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	class := claim.Spec.StorageClassName
	if name := objects.ClaimClass(claim); class != nil || name != "" { // old claims have it in an annotation
		class = &name
	}
	prime := &corev1.PersistentVolumeClaim{
		ObjectMeta: s.Marks(claim),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: writable(claim.Spec.AccessModes), Resources: *claim.Spec.Resources.DeepCopy(),
			StorageClassName: class, Selector: claim.Spec.Selector.DeepCopy(), VolumeMode: claim.Spec.VolumeMode,
			VolumeAttributesClassName: claim.Spec.VolumeAttributesClassName,
		},
	}
	prime.Name = PrimeName(claim.UID)
	if node := claim.Annotations[names.AnnSelectedNode]; node != "" {
		maps.Copy(prime.Annotations, s.nodeMarks(node))
	}
	return prime
}

func (s Settings) nodeMarks(node string) map[string]string {
	return map[string]string{names.AnnSelectedNode: node, s.NodeAnnotation(): node}
}

// writable returns the access modes with one in which a pod can write. The volume has them all, so it fits
// a claim that only reads.
func writable(modes []corev1.PersistentVolumeAccessMode) []corev1.PersistentVolumeAccessMode {
	if len(modes) == 0 || slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m != corev1.ReadOnlyMany
	}) {
		return slices.Clone(modes)
	}
	return append([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, modes...)
}

// Failures returns the number of failed pods that a prime claim or a pod says.
func (s Settings) Failures(o Marked) int {
	n, err := strconv.Atoi(o.GetAnnotations()[s.AttemptsAnnotation()])
	if err != nil || n < 0 {
		return 0
	}
	return n
}
