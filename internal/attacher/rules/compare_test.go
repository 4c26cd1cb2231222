package publishing

import (
	"testing"

	"github.com/purser-csi/purser/internal/names"
)

// AT-L2 to AT-L4, AT-H5.
func TestDiffers(t *testing.T) {
	at := func(nodes ...string) map[string]Listed { return map[string]Listed{"h^1": {Nodes: nodes}} }
	for row, tc := range map[string]struct {
		s       Snapshot
		volumes map[string]Listed
		want    bool
	}{
		"AT-L4 attached, and listed so":                 {snapshot(attached), at("i-1"), false},
		"AT-L4 attached to two nodes":                   {snapshot(attached), at("i-0", "i-1"), false},
		"AT-L4 attached, and listed for another node":   {snapshot(attached), at("i-2"), true},
		"AT-L4 attached, and listed for none":           {snapshot(attached), at(), true},
		"AT-L2 attached, and not listed":                {snapshot(attached), nil, true},
		"AT-L2 attached, and listed without a status":   {snapshot(attached), map[string]Listed{"h^1": {Silent: true}}, false},
		"AT-L5 not attached, and listed":                {snapshot(prepared), at("i-1"), true},
		"AT-L5 not attached, and not listed":            {snapshot(prepared), nil, false},
		"AT-L5 not prepared, and listed":                {snapshot(), at("i-1"), true},
		"AT-L5 being deleted, and listed":               {snapshot(prepared, deleted), at("i-1"), true},
		"AT-H2 the node id that was published":          {snapshot(attached, func(s *Snapshot) { s.Node.Spec.Drivers[0].NodeID = "i-2" }), at("i-1"), false},
		"AT-L3 of an attachment by upstream":            {snapshot(attached, func(s *Snapshot) { s.Attachment.Annotations = nil }), at("i-1"), false},
		"AT-L3 the node is not known":                   {snapshot(func(s *Snapshot) { s.Node = nil }), at("i-1"), false},
		"AT-H7 the volume is gone, its handle is known": {snapshot(attached, withoutVolume), at(), true},
		"AT-L3 the volume is gone":                      {snapshot(withoutVolume), at("i-1"), false},
		"AT-L3 the handle of a migrated volume": {
			snapshot(attached, func(s *Snapshot) {
				s.Driver.Name, s.Attachment.Spec.Attacher = "pd.csi.storage.gke.io", "pd.csi.storage.gke.io"
				s.Attachment.Annotations = map[string]string{
					names.AnnVolumeHandle: "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/x", names.AnnAttachedNodeID: "projects/p/zones/z/instances/n",
				}
			}), map[string]Listed{"projects/p/zones/z/disks/x": {Nodes: []string{"projects/p/zones/z/instances/n"}}}, false,
		},
		"AT-L9 another driver's":     {snapshot(attached, func(s *Snapshot) { s.Attachment.Spec.Attacher = "x" }), nil, false},
		"an attachment that is gone": {Snapshot{}, nil, false},
	} {
		if got := Differs(tc.s, tc.volumes); got != tc.want {
			t.Errorf("%s: %t", row, got)
		}
	}
}
