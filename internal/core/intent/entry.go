package intent

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
)

// Entry is the record of one CreateVolume request that was sent and is not settled. It never holds a secret value.
type Entry struct {
	Claim      types.NamespacedName
	UID        types.UID // of the claim; the entry is about this claim only, whatever has its name by now
	VolumeName string    // of the request and of the PersistentVolume
	// Request is repeated as it is, since a different one with the same name would be refused with AlreadyExists (C-45).
	// Its Secrets field is empty.
	Request *csi.CreateVolumeRequest
	// Secret is the provisioner's secret, whose values go into the request right before it is sent; empty for none.
	Secret types.NamespacedName
	// NotBefore is set on entries of a former holder of the journal, whose calls may be under way until then. Deleting what a
	// repeated call found, while the first one is still under way, would lose what the first one creates.
	NotBefore time.Time
}
