package staging

import (
	"encoding/json"
	"fmt"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// Record is one volume at its staging path.
type Record struct {
	Volume backend.ID
	Path   string
	// The capability, without what may be sensitive.
	Type   backend.AccessType
	Mode   backend.AccessMode
	FSType string
}

// SameArguments compares what NodeStageVolume was asked for, apart from the
// path.
func (r Record) SameArguments(other Record) bool {
	return r.Type == other.Type && r.Mode == other.Mode && r.FSType == other.FSType
}

// Arguments describes them for an error message.
func (r Record) Arguments() string {
	return backend.Capability{Type: r.Type, Mode: r.Mode, FSType: r.FSType}.String()
}

// recordFormat is raised when an older program would misread the file.
const recordFormat = 1

type file struct {
	Format     int                `json:"format"`
	Volume     string             `json:"volume"`
	Path       string             `json:"path"`
	AccessType backend.AccessType `json:"accessType"`
	AccessMode backend.AccessMode `json:"accessMode"`
	FSType     string             `json:"fsType,omitempty"`
}

func encode(r Record) ([]byte, error) {
	content, err := json.MarshalIndent(file{
		Format: recordFormat, Volume: r.Volume.String(), Path: r.Path,
		AccessType: r.Type, AccessMode: r.Mode, FSType: r.FSType,
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
	if f.Path == "" {
		return Record{}, fmt.Errorf("it has no path")
	}
	volume, err := backend.MakeID(f.Volume)
	if err != nil {
		return Record{}, err
	}
	return Record{Volume: volume, Path: f.Path, Type: f.AccessType, Mode: f.AccessMode, FSType: f.FSType}, nil
}
