package records

import (
	"errors"
	"fmt"
	"slices"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Attachment is one volume on one node.
type Attachment struct {
	Node string             `json:"node"`
	Type backend.AccessType `json:"accessType"`
	Mode backend.AccessMode `json:"accessMode"`
}

// String describes the attachment for an error message.
func (a Attachment) String() string { return fmt.Sprintf("node %q as %s %s", a.Node, a.Type, a.Mode) }

// Nodes returns the nodes of attachments, in ascending order.
func Nodes(attachments []Attachment) []string {
	nodes := make([]string, 0, len(attachments))
	for _, a := range attachments {
		nodes = append(nodes, a.Node)
	}
	slices.Sort(nodes)
	return nodes
}

// MayAttach is the error table of ControllerPublishVolume for a volume that
// exists and has some attachments. The answer is repeat when the volume is
// attached as asked already.
func MayAttach(volume backend.ID, have []Attachment, want Attachment) (repeat bool, err error) {
	for _, a := range have {
		if a.Node != want.Node {
			continue
		}
		if a == want {
			return true, nil
		}
		return false, fault.Incompatible.Errorf("volume %q is attached to %s, not as %s %s; detach it first",
			volume, a, want.Type, want.Mode)
	}
	for _, a := range have {
		if !a.Mode.AllowsSeveralNodes() || !want.Mode.AllowsSeveralNodes() {
			return false, fault.InUse.Errorf("volume %q is attached to %s, which excludes %s; "+
				"detach it there first, or use an access mode for several nodes", volume, a, want)
		}
	}
	return false, nil
}

// attachments is the record of one volume.
type attachments struct {
	Volume backend.ID   `json:"volume"`
	Nodes  []Attachment `json:"nodes"`
}

func (a attachments) fileName() string { return nameOf(a.Volume) }

func (a attachments) check() error {
	if len(a.Nodes) == 0 {
		return errors.New("it has no nodes")
	}
	for _, on := range a.Nodes {
		if on.Node == "" || on.Mode == "" {
			return errors.New("an entry has no node or no access mode")
		}
	}
	return nil
}
