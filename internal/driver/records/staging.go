package records

import (
	"errors"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// Staging is one volume at its staging path.
type Staging struct {
	Volume backend.ID `json:"volume"`
	Path   string     `json:"path"`
	// The capability, without what may be sensitive.
	Type   backend.AccessType `json:"accessType"`
	Mode   backend.AccessMode `json:"accessMode"`
	FSType string             `json:"fsType,omitempty"`
}

// SameArguments compares what NodeStageVolume was asked for, apart from the
// path.
//
// A record that was healed has no mode and no filesystem: every one is the same.
func (r Staging) SameArguments(other Staging) bool {
	if r.Mode == "" {
		return r.Type == other.Type
	}
	return r.Type == other.Type && r.Mode == other.Mode && r.FSType == other.FSType
}

// Arguments describes them for an error message.
func (r Staging) Arguments() string {
	return backend.Capability{Type: r.Type, Mode: r.Mode, FSType: r.FSType}.String()
}

func (r Staging) fileName() string { return nameOf(r.Volume) }

func (r Staging) check() error {
	if r.Path == "" {
		return errors.New("it has no path")
	}
	return nil
}
