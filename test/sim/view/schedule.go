package view

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fault is a fault of the watch of one kind, until [View.Heal].
type Fault struct {
	Kind client.Object
	// Lag is by how many events the watch is behind.
	Lag int
	// Late is how many events the first list does not have yet.
	Late int
	// Frozen has nothing delivered.
	Frozen bool
	// Relist delivers the missed changes as one difference, as after a broken watch.
	Relist bool
}

// Delay is the time from a change to its delivery. The delays of the kinds differ, so that no two
// things happen at the same instant of virtual time.
const (
	Delay   = 1500 * time.Microsecond
	perKind = 110 * time.Microsecond
)
