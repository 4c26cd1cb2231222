package records

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/mount"
)

// Publication is one publication: a volume at a target path.
type Publication struct {
	Volume backend.ID `json:"volume"`
	Target string     `json:"target"`
	// Source is what was made to appear at Target.
	Source string `json:"source"`
	// The arguments, as the caller gave them.
	Type     backend.AccessType `json:"accessType"`
	Mode     backend.AccessMode `json:"accessMode"`
	FSType   string             `json:"fsType,omitempty"`
	ReadOnly bool               `json:"readOnly"`
}

// SameArguments compares what the spec calls P1 and P2: volume_capability and
// readonly ("NodePublishVolume Errors"). Contexts are left out: kubelet puts
// pod data and tokens in there that change from call to call.
func (r Publication) SameArguments(other Publication) bool {
	return r.Type == other.Type && r.Mode == other.Mode && r.FSType == other.FSType && r.ReadOnly == other.ReadOnly
}

// Arguments describes them for an error message.
func (r Publication) Arguments() string {
	return fmt.Sprintf("%s readonly=%t", backend.Capability{Type: r.Type, Mode: r.Mode, FSType: r.FSType}, r.ReadOnly)
}

// Access is what the mount must enforce.
func (r Publication) Access() mount.Access {
	if r.ReadOnly || r.Mode.ReadsOnly() {
		return mount.ReadOnly
	}
	return mount.ReadWrite
}

func (r Publication) check() error { return nil }

func (r Publication) fileName() string { return fileName(r.Volume, r.Target) }

// fileName hashes the target because it is a path, and longer than a file name may be.
func fileName(volume backend.ID, target string) string {
	sum := sha256.Sum256([]byte(target))
	return volume.String() + "@" + hex.EncodeToString(sum[:]) + suffix
}
