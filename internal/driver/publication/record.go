package publication

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/records"
	"github.com/purser-csi/purser/internal/mount"
)

// Record is one publication: a volume at a target path.
type Record struct {
	Volume backend.ID
	Target string
	// Source is what was made to appear at Target.
	Source string
	// The arguments, as the caller gave them.
	Type     backend.AccessType
	Mode     backend.AccessMode
	FSType   string
	ReadOnly bool
}

// SameArguments compares what the spec calls P1 and P2: volume_capability and
// readonly ("NodePublishVolume Errors"). Contexts are left out: kubelet puts
// pod data and tokens in there that change from call to call.
func (r Record) SameArguments(other Record) bool {
	return r.Type == other.Type && r.Mode == other.Mode && r.FSType == other.FSType && r.ReadOnly == other.ReadOnly
}

// Arguments describes them for an error message.
func (r Record) Arguments() string {
	return fmt.Sprintf("%s readonly=%t", backend.Capability{Type: r.Type, Mode: r.Mode, FSType: r.FSType}, r.ReadOnly)
}

// Access is what the mount must enforce.
func (r Record) Access() mount.Access {
	if r.ReadOnly || r.Mode.ReadsOnly() {
		return mount.ReadOnly
	}
	return mount.ReadWrite
}

// recordFormat is raised when an older program would misread the file.
const recordFormat = 1

type file struct {
	Format     int                `json:"format"`
	Volume     string             `json:"volume"`
	Target     string             `json:"target"`
	Source     string             `json:"source"`
	AccessType backend.AccessType `json:"accessType"`
	AccessMode backend.AccessMode `json:"accessMode"`
	FSType     string             `json:"fsType,omitempty"`
	ReadOnly   bool               `json:"readOnly"`
}

func encode(r Record) ([]byte, error) {
	content, err := json.MarshalIndent(file{
		Format: recordFormat, Volume: r.Volume.String(), Target: r.Target, Source: r.Source,
		AccessType: r.Type, AccessMode: r.Mode, FSType: r.FSType, ReadOnly: r.ReadOnly,
	}, "", "  ")
	return append(content, '\n'), err
}

func decode(content []byte) (Record, error) {
	var f file
	if err := json.Unmarshal(content, &f); err != nil {
		return Record{}, err
	}
	if f.Format != recordFormat {
		return Record{}, fmt.Errorf("format %d, this program reads format %d", f.Format, recordFormat)
	}
	volume, err := backend.MakeID(f.Volume)
	if err != nil {
		return Record{}, err
	}
	return Record{
		Volume: volume, Target: f.Target, Source: f.Source,
		Type: f.AccessType, Mode: f.AccessMode, FSType: f.FSType, ReadOnly: f.ReadOnly,
	}, nil
}

// fileName holds the id of the volume, so that even a damaged record tells
// whose it is. The target is hashed because it is a path, and longer than a
// file name may be.
func fileName(volume backend.ID, target string) string {
	sum := sha256.Sum256([]byte(target))
	return volume.String() + "@" + hex.EncodeToString(sum[:]) + records.Suffix
}

// volumeOf tells the volume from a file name, when it is that of a record.
func volumeOf(name string) (volume backend.ID, isRecord bool) {
	id, _, found := strings.Cut(name, "@")
	if !found || !strings.HasSuffix(name, records.Suffix) {
		return backend.ID{}, false
	}
	volume, err := backend.MakeID(id)
	return volume, err == nil
}
