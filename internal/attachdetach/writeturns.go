package attachdetach

import attachment "github.com/purser-csi/purser/internal/attachdetach/rules"

// writeTurns bounds how many nodes are written at once ([attachment.MostListWrites]). Nodes with a volume to
// list come first, but every third turn is that of the node which has waited longest. The caller of each
// method holds the lock of nodeStatus.
type writeTurns struct {
	inFlight, waiting int
	all, attaching    []*turn // in the order in which they came; those that have begun are left out when met
	begun             int
}

// turn is the turn of one node.
type turn struct {
	begins   chan struct{} // closed when it begins
	hasBegun bool
	attaches bool
}

// isFree reports whether a further turn would begin at once.
func (w *writeTurns) isFree() bool {
	return w.waiting == 0 && w.inFlight < attachment.MostListWrites(w.inFlight+1)
}

// queue returns a turn, which begins at once if it can.
func (w *writeTurns) queue(attaches bool) *turn {
	t := &turn{begins: make(chan struct{})}
	w.waiting++
	w.all = append(w.all, t)
	if attaches {
		w.attaches(t)
	}
	w.begin()
	return t
}

// attaches notes that the node of a turn has a volume to list. The turn may be nil, or have begun.
func (w *writeTurns) attaches(t *turn) {
	if t == nil || t.hasBegun || t.attaches {
		return
	}
	t.attaches = true
	w.attaching = append(w.attaching, t)
}

// end is the end of a turn that has begun.
func (w *writeTurns) end() {
	w.inFlight--
	w.begin()
}

func (w *writeTurns) begin() {
	for w.waiting > 0 && w.inFlight < attachment.MostListWrites(w.inFlight+w.waiting) {
		w.begun++
		t := first(&w.attaching)
		if t == nil || w.begun%3 == 0 {
			t = first(&w.all)
		}
		t.hasBegun = true
		close(t.begins)
		w.waiting--
		w.inFlight++
	}
}

// first returns the first turn that has not begun, and nil if there is none.
func first(turns *[]*turn) *turn {
	for len(*turns) > 0 && (*turns)[0].hasBegun {
		*turns = (*turns)[1:]
	}
	if len(*turns) == 0 {
		return nil
	}
	return (*turns)[0]
}
