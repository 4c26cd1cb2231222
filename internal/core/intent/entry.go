package intent

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/secretref"
)

// Entry is the record of one CreateVolume request that was sent and is not settled. It never holds a secret value.
type Entry struct {
	Claim      types.NamespacedName
	UID        types.UID // of the claim; the entry is about this claim only, whatever has its name by now
	VolumeName string    // of the request and of the PersistentVolume
	// Request is repeated as it is, since a different one with the same name would be refused with AlreadyExists (C-45).
	// Its Secrets field is empty.
	Request *csi.CreateVolumeRequest
	// Secrets refers to the secrets that were meant when the request was made. The values of the provisioner's go into the request
	// right before it is sent; all of them describe the volume. They are on record so that nothing can be wrong with them, and no
	// class or claim is needed to know them, once a volume may exist (H-47).
	Secrets secretref.Set
	// NotBefore is set on entries of a former holder of the journal, whose calls may be under way until then. Deleting what a
	// repeated call found, while the first one is still under way, would lose what the first one creates.
	NotBefore time.Time
}
