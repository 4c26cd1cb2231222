package life

import (
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Schema names the form of [Answer] as JSON. A field is added under the same name; a form without a
// field of before, or with another meaning, needs the next version.
const Schema = "purser.life/v1"

// Answer is what `purser life -o json` prints.
type Answer struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"` // the end of the record, or the time of the dump
	Lives  []Life    `json:"lives"`
	Unread []string  `json:"unread,omitempty"` // the kinds that the input lacks
}

// Life is the life of one volume, from its claim's creation to the end of its PersistentVolume.
type Life struct {
	Object explain.Ref `json:"object"` // the claim; the volume, or the snapshot, where there is no claim
	UID    string      `json:"uid"`
	Volume string      `json:"volume,omitempty"` // the PersistentVolume
	Handle string      `json:"handle,omitempty"`
	Driver string      `json:"driver,omitempty"`
	Class  string      `json:"class,omitempty"`

	From time.Time  `json:"from"`
	To   *time.Time `json:"to,omitempty"` // nil while the volume exists

	// Slowest is the longest interval of all phases but that of the use; nil without one.
	Slowest *Interval `json:"slowest,omitempty"`
	// Phases are in order of their begin. Those of the kinds creation, use and deletion do not
	// overlap each other; the other phases happen during the use.
	Phases []Phase `json:"phases"`
	// Marks are all that is known to have happened, in order of time.
	Marks []Mark `json:"marks"`
	// Calls are the calls to the driver about the volume, if a record has those of a role.
	Calls []Call `json:"calls,omitempty"`
	// Unknown says what the input does not tell, and why.
	Unknown []string `json:"unknown,omitempty"`
}

// PhaseKind is what a phase is about.
type PhaseKind string

// The kinds of phases.
const (
	Creation     PhaseKind = "creation"     // claim created -> volumes of the first pod mounted
	Use          PhaseKind = "use"          // mounted -> deletion of the claim
	Deletion     PhaseKind = "deletion"     // deletion of the claim -> claim and volume gone
	Start        PhaseKind = "start"        // a later pod created -> mounted
	Stop         PhaseKind = "stop"         // a pod deleted -> gone, and the volume detached from its node
	Expansion    PhaseKind = "expansion"    // larger size asked -> capacity reached
	Modification PhaseKind = "modification" // attributes class asked -> current
	Snapshotting PhaseKind = "snapshot"     // snapshot created -> ready to use
	Unsnapshot   PhaseKind = "unsnapshot"   // deletion of a snapshot -> gone
)

// Phase is a part of a life with a begin and an end that a user sees. Its intervals follow each
// other without a gap and without overlap.
type Phase struct {
	Kind   PhaseKind   `json:"kind"`
	Name   string      `json:"name"`
	Object explain.Ref `json:"object"` // that the phase is about: the claim, a pod or a snapshot
	From   time.Time   `json:"from"`
	To     time.Time   `json:"to"`
	Open   bool        `json:"open,omitempty"` // it has not ended; To is the end of the input
	// Attributed is the part of the time that has a named lane or reason, from 0 to 1.
	Attributed float64    `json:"attributed"`
	Intervals  []Interval `json:"intervals"`
}

// Lane is the party whose doing an interval or a mark is.
type Lane string

// The lanes, in the order in which they are drawn.
const (
	User         Lane = "user"
	Binder       Lane = "binder"
	Scheduler    Lane = "scheduler"
	Provisioner  Lane = "provisioner"
	Driver       Lane = "driver"
	AttachDetach Lane = "attach-detach"
	Attacher     Lane = "attacher"
	Node         Lane = "node"
	Resizer      Lane = "resizer"
	Snapshotter  Lane = "snapshotter"
	Protection   Lane = "deletion" // finalizers that protect what is in use, and the end of objects
	NoLane       Lane = ""         // not known
)

// Lanes are all lanes in their order.
var Lanes = []Lane{
	User, Binder, Scheduler, Provisioner, Driver, AttachDetach, Attacher, Node, Resizer, Snapshotter, Protection,
}

// State says what an interval is.
type State string

// The states of an interval.
const (
	Working State = "working" // the party of the lane takes a step
	Waiting State = "waiting" // it waits for what Reason says
	Used    State = "used"    // pods use the volume, or none asks for it: no step is due
	Unknown State = "unknown"
)

// Interval is a part of a phase.
type Interval struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Lane  Lane      `json:"lane"`
	State State     `json:"state"`
	What  string    `json:"what"` // one sentence

	// Reason, Cause and Actor are those of explain's finding at that time; empty without one.
	Reason verdict.Reason `json:"reason,omitempty"`
	Cause  *explain.Ref   `json:"cause,omitempty"`
	Actor  explain.Actor  `json:"actor,omitempty"`
	// Finding is the whole explanation, if one was made.
	Finding *explain.Finding `json:"finding,omitempty"`
	// Call is the call to the driver that the interval is, if it is one.
	Call *Call `json:"call,omitempty"`
	// Ends is the mark that ends the interval; nil for the end of the input or of a call.
	Ends *Mark `json:"ends,omitempty"`
}

// Took returns the length.
func (i Interval) Took() time.Duration { return i.To.Sub(i.From) }

// IsAttributed reports whether a party or a reason is known.
func (i Interval) IsAttributed() bool { return i.State != Unknown }

// Mark is one thing that happened to an object.
type Mark struct {
	At     time.Time   `json:"at"`
	Lane   Lane        `json:"lane"`
	Object explain.Ref `json:"object"`
	Step   Step        `json:"step"`
	What   string      `json:"what"`
	// By are the managers of the fields that the change wrote, as far as managedFields tell.
	By []string `json:"by,omitempty"`
	// Changed are the paths of the fields of the change, if a record has it.
	Changed []string `json:"changed,omitempty"`
	// Version is the resource version that the change made, if a record has it.
	Version string `json:"resourceVersion,omitempty"`
	// Coarse says that the time has a resolution of one second: it is written in the object itself.
	Coarse bool `json:"coarse,omitempty"`

	index int // of the change in the source; -1 for a time out of the object itself
	cuts  bool
}

// Call is one call to a CSI driver, or one decision of a controller, as a role noted it.
type Call struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Role   string    `json:"role,omitempty"` // the controller or program that made it
	Name   string    `json:"name"`           // the RPC, such as CreateVolume, or the reason of a decision
	Code   string    `json:"code,omitempty"` // the gRPC code, such as OK; empty for a decision
	Volume string    `json:"volume,omitempty"`
	Object string    `json:"object,omitempty"`
}
