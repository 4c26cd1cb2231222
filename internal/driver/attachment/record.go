package attachment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Attachment is one volume on one node.
type Attachment struct {
	Node string
	Type backend.AccessType
	Mode backend.AccessMode
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

// recordFormat is raised when an older program would misread the file.
const recordFormat = 1

type file struct {
	Format int     `json:"format"`
	Volume string  `json:"volume"`
	Nodes  []entry `json:"nodes"`
}

type entry struct {
	Node       string             `json:"node"`
	AccessType backend.AccessType `json:"accessType"`
	AccessMode backend.AccessMode `json:"accessMode"`
}

func encode(volume backend.ID, attachments []Attachment) ([]byte, error) {
	f := file{Format: recordFormat, Volume: volume.String()}
	for _, a := range attachments {
		f.Nodes = append(f.Nodes, entry{a.Node, a.Type, a.Mode})
	}
	slices.SortFunc(f.Nodes, func(a, b entry) int { return cmp.Compare(a.Node, b.Node) })
	content, err := json.MarshalIndent(f, "", "  ")
	return append(content, '\n'), err
}

func decode(content []byte, volume backend.ID) ([]Attachment, error) {
	var f file
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, err
	}
	switch {
	case f.Format != recordFormat:
		return nil, fmt.Errorf("format %d, this program reads format %d", f.Format, recordFormat)
	case f.Volume != volume.String():
		return nil, fmt.Errorf("it is about volume %q", f.Volume)
	case len(f.Nodes) == 0:
		return nil, fmt.Errorf("it has no nodes")
	}
	var attachments []Attachment
	for _, e := range f.Nodes {
		if e.Node == "" || e.AccessMode == "" {
			return nil, fmt.Errorf("an entry has no node or no access mode")
		}
		attachments = append(attachments, Attachment{e.Node, e.AccessType, e.AccessMode})
	}
	return attachments, nil
}
