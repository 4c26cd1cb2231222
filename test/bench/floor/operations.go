package floor

import "context"

// form says how many processes share an operation, which decides what they must tell each other
// through the API server.
type form int

const (
	separate form = iota // each role is its own process
	together             // binder, protection, attach-detach and the sidecars are one process
)

// need is the floor of an operation in one form (docs/spec/floor.md). Reads and events are 0 in each.
type need struct {
	Writes  float64 // for one volume
	Batched float64 // writes that the volumes of a node share
	Depth   int     // writes that wait for each other, of a single operation
}

// floor is the number of writes, if share volumes share a batched write.
func (n need) floor(share float64) float64 { return n.Writes + n.Batched/share }

// The operations by name.
const (
	opProvision      = "provision"
	opDelete         = "delete"
	opExpand         = "expand"
	opModify         = "modify"
	opAttach         = "attach"
	opDetach         = "detach"
	opSnapshot       = "snapshot"
	opRestore        = "restore"
	opDeleteSnapshot = "delete snapshot"
)

// operation is one row of the table.
type operation struct {
	name   string
	id     string // row of docs/spec/floor.md
	floors [2]need
	how    string // how the row is measured: what a user does, and what ends it
	// upstream is the sidecar of upstream that the row needs; empty for kube-controller-manager.
	upstream string
	ask      func(*turn, context.Context, *item) error // what a user does
	write    func(*bare, context.Context, *item) error // what the bare client does next
}

// operations are in the order in which they are played. Provision and delete have volumes of their
// own, since the deletion of a volume that was attached has a write more (FL-13).
func operations() []operation {
	return []operation{
		{
			name: opProvision, id: "FL-10", upstream: stockProvisioner, ask: (*turn).askProvision,
			write:  (*bare).provision,
			floors: [2]need{{Writes: 5, Depth: 5}, {Writes: 4, Depth: 4}},
			how: "A user creates a claim of a class with the binding mode Immediate; it ends when the claim is " +
				"Bound. The depth has the write of the journal before CreateVolume, which the floor of the writes " +
				"has not: a burst shares it (column journal).",
		},
		{
			name: opDelete, id: "FL-12", upstream: stockProvisioner, ask: (*turn).askDelete, write: (*bare).remove,
			floors: [2]need{{Writes: 5, Depth: 4}, {Writes: 4, Depth: 4}},
			how: "A user deletes the claim of a volume that was never attached, with the policy Delete; it ends when " +
				"the PersistentVolume is gone.",
		},
		{
			name: opExpand, id: "FL-16", upstream: stockResizer, ask: (*turn).askExpand, write: (*bare).expand,
			floors: [2]need{{Writes: 3, Depth: 3}, {Writes: 3, Depth: 3}},
			how: "A user doubles the size of a bound claim that no pod uses; it ends when the claim's status has the " +
				"size. The driver leaves nothing to the node.",
		},
		{
			name: opModify, id: "FL-17", upstream: stockResizer, ask: (*turn).askModify, write: (*bare).modify,
			floors: [2]need{{Writes: 3, Depth: 3}, {Writes: 3, Depth: 3}},
			how: "A user sets a VolumeAttributesClass on a bound claim; it ends when the claim's status has the " +
				"class as the current one.",
		},
		{
			name: opAttach, id: "FL-14", upstream: stockAttacher, ask: (*turn).askAttach, write: (*bare).attach,
			floors: [2]need{{Writes: 5, Batched: 1, Depth: 5}, {Writes: 3, Batched: 1, Depth: 3}},
			how: "A pod with the claim is created, bound to a node; it ends when the status of the node has the " +
				"volume. It is the first attach of each volume, which in processes of their own has the finalizer of " +
				"the PersistentVolume. One write is the condition Unused of the claim (FL-20), beside the path.",
		},
		{
			name: opDetach, id: "FL-15", upstream: stockAttacher, ask: (*turn).askDetach, write: (*bare).detach,
			floors: [2]need{{Writes: 3, Batched: 1, Depth: 3}, {Writes: 3, Batched: 1, Depth: 3}},
			how: "The pod is deleted; it ends when the VolumeAttachment is gone. No kubelet reports the volume in " +
				"use, so its time to unmount is not part of it. One write is the condition Unused of the claim " +
				"(FL-20).",
		},
		{
			name: opSnapshot, id: "FL-18", upstream: stockSnapshotter, ask: (*turn).askSnapshot,
			write:  (*bare).snapshot,
			floors: [2]need{{Writes: 8, Depth: 5}, {Writes: 4, Depth: 4}},
			how:    "A user creates a VolumeSnapshot of a bound claim; it ends when it is ready to use.",
		},
		{
			name: opRestore, id: "FL-21", upstream: stockSnapshotter, ask: (*turn).askRestore, write: (*bare).restore,
			floors: [2]need{{Writes: 7, Depth: 6}, {Writes: 4, Depth: 4}},
			how: "A user creates a claim with the VolumeSnapshot as its source; it ends when the claim is Bound. In " +
				"processes of their own the VolumeSnapshot has a finalizer during the call.",
		},
		{
			name: opDeleteSnapshot, id: "FL-19", upstream: stockSnapshotter, ask: (*turn).askDeleteSnapshot,
			write:  (*bare).deleteSnapshot,
			floors: [2]need{{Writes: 4, Depth: 4}, {Writes: 3, Depth: 3}},
			how:    "A user deletes a VolumeSnapshot; it ends when it and its content are gone.",
		},
	}
}
