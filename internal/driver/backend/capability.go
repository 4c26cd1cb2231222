package backend

import "fmt"

// AccessType is the interface through which a workload uses a volume.
type AccessType string

// The access types of VolumeCapability.access_type.
const (
	Mount AccessType = "mount"
	Block AccessType = "block"
)

// AccessMode is one of VolumeCapability.AccessMode, by its name in the spec.
type AccessMode string

// The access modes.
const (
	SingleNodeWriter       AccessMode = "SINGLE_NODE_WRITER"
	SingleNodeReaderOnly   AccessMode = "SINGLE_NODE_READER_ONLY"
	MultiNodeReaderOnly    AccessMode = "MULTI_NODE_READER_ONLY"
	MultiNodeSingleWriter  AccessMode = "MULTI_NODE_SINGLE_WRITER"
	MultiNodeMultiWriter   AccessMode = "MULTI_NODE_MULTI_WRITER"
	SingleNodeSingleWriter AccessMode = "SINGLE_NODE_SINGLE_WRITER"
	SingleNodeMultiWriter  AccessMode = "SINGLE_NODE_MULTI_WRITER"
)

// AccessModes lists every mode that this driver knows.
var AccessModes = []AccessMode{
	SingleNodeWriter, SingleNodeReaderOnly, MultiNodeReaderOnly, MultiNodeSingleWriter,
	MultiNodeMultiWriter, SingleNodeSingleWriter, SingleNodeMultiWriter,
}

// ReadsOnly says whether the mode rules out writing, whatever the readonly
// flag of a request says.
func (m AccessMode) ReadsOnly() bool {
	return m == SingleNodeReaderOnly || m == MultiNodeReaderOnly
}

// AllowsSeveralNodes says whether a volume may be attached to more than one
// node at a time ("ControllerPublishVolume Errors").
func (m AccessMode) AllowsSeveralNodes() bool {
	return m == MultiNodeReaderOnly || m == MultiNodeSingleWriter || m == MultiNodeMultiWriter
}

// AllowsSeveralTargets is the second table of NodePublishVolume: may a volume
// be published at more than one path of a node?
func (m AccessMode) AllowsSeveralTargets() bool {
	switch m {
	case SingleNodeMultiWriter, MultiNodeReaderOnly, MultiNodeSingleWriter, MultiNodeMultiWriter:
		return true
	default:
		return false
	}
}

// Capability is one way in which a workload wants to use a volume.
type Capability struct {
	Type AccessType `json:"accessType"`
	Mode AccessMode `json:"accessMode"`
	// FSType is the filesystem asked for; empty leaves it to the backend.
	FSType string `json:"fsType,omitempty"`
	// MountFlags may be sensitive (VolumeCapability.MountVolume): they must
	// not be logged, stored or repeated in an error.
	MountFlags []string `json:"-"`
	// MountGroup is the group that should own the files, as a number.
	MountGroup string `json:"-"`
}

// String leaves out the mount flags, see there.
func (c Capability) String() string {
	if c.FSType == "" {
		return fmt.Sprintf("%s %s", c.Type, c.Mode)
	}
	return fmt.Sprintf("%s(%s) %s", c.Type, c.FSType, c.Mode)
}
