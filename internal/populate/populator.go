package populate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Populator is a kind of sources, and how an object of it becomes a pod.
type Populator struct {
	// Prefix is before the names of the finalizer, the label and the annotations (VP-3).
	Prefix string
	// Source is the kind of the sources. A VolumePopulator object names it too.
	Source schema.GroupVersionKind
	// Pod returns what the pod needs for a source. The error says which field has which value and what is
	// accepted; it is in an event of the claim, so it must have no secret value.
	Pod func(source *unstructured.Unstructured, target Target) (Request, error)
}

// Target is the volume that a pod writes to, as [Populator.Pod] needs it.
type Target struct {
	Claim *corev1.PersistentVolumeClaim // the user's
	Path  string                        // of the device, or of the folder of the filesystem, in the container
	Block bool
	Size  int64 // that the claim asks for, in bytes
}

// Request is what the container of a pod has besides the image and the volume.
type Request struct {
	Args []string
	// Secret is the name of a secret in the namespace of the populator that is mounted at SecretPath; empty
	// for none. The controller does not read it.
	Secret     string
	SecretPath string
	// Port serves the progress, see internal/populate/pod; 0 for none.
	Port int32
}

// InvalidError says which field of a source is refused, and what to do.
type InvalidError struct{ Problem, Fix string }

// Error implements error.
func (e InvalidError) Error() string { return e.Problem }
