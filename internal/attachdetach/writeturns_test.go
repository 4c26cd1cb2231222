package attachdetach

import (
	"slices"
	"strings"
	"testing"
)

// 4.6: the first nodes do not wait, the others follow as writes end: those that attach first, and every third
// time the one that has waited longest.
func TestWriteTurns(t *testing.T) {
	var w writeTurns
	turns := map[string]*turn{}
	ask := func(name string, attaches bool) { turns[name] = w.queue(attaches) }
	var begun []string
	ends := func() string {
		w.end()
		var all []string
		for name, one := range turns {
			select {
			case <-one.begins:
				if !slices.Contains(begun, name) {
					all = append(all, name)
				}
			default:
			}
		}
		begun = append(begun, all...)
		return strings.Join(all, " ")
	}
	if !w.isFree() {
		t.Error("an idle controller has no turn")
	}
	<-w.queue(false).begins
	if w.isFree() {
		t.Error("no bound of writes in flight")
	}
	w.begun = 0
	for _, name := range []string{"d1", "d2", "d3"} {
		ask(name, false)
	}
	for _, name := range []string{"a1", "a2", "a3"} {
		ask(name, true)
	}
	w.attaches(turns["d3"]) // an attach came to this node while it waits
	w.attaches(nil)
	for _, want := range []string{"a1", "a2", "d1", "a3", "d3", "d2", ""} {
		if got := ends(); got != want {
			t.Errorf("%q begins, want %q", got, want)
		}
	}
	w.attaches(turns["d2"])
	for range 16 {
		_ = w.queue(false)
	}
	if w.inFlight != 2 {
		t.Errorf("%d writes at once while 16 nodes wait", w.inFlight)
	}
	for range 16 {
		w.end()
	}
	if first(&w.all) != nil || first(&w.attaching) != nil || w.waiting != 0 {
		t.Errorf("turns are left: %+v", w)
	}
}
