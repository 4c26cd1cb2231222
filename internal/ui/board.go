package ui

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// board is what is stuck in a cluster, by cause.
type board struct {
	Time    time.Time
	Causes  []cause // which an actor has to mend, in the order of explain
	Waits   []cause // which go on by themselves
	Refused []explain.Finding
	Unread  []string
	Unknown bool // a kind was not read of which an object may be stuck

	places map[explain.Ref]place // of the objects of the causes
}

// cause is one cause with the objects that wait for it.
type cause struct {
	explain.Group

	ID string
}

// boardOf computes the board of the objects of a namespace; of all, if it is empty.
func boardOf(c *explain.Cluster, namespace string) *board {
	b := &board{Time: c.Now, places: map[explain.Ref]place{}, Unread: c.UnreadTexts(), Unknown: c.CannotTell()}
	where := newPlaces(c)
	for _, group := range explain.GroupByCause(c.Stuck(namespace)) {
		one := cause{group, "cause-" + idOf(string(group.Reason), group.Cause.String())}
		if group.Normal {
			b.Waits = append(b.Waits, one)
		} else {
			b.Causes = append(b.Causes, one)
		}
		for _, ref := range group.Objects {
			b.places[ref] = where.of(ref)
		}
	}
	b.Refused = c.RefusedWishes(namespace)
	return b
}

// filter chooses the objects of a board. An empty field chooses all.
type filter struct{ Namespace, Actor, Class, Driver, Node, Cause string }

func filterOf(query url.Values) filter {
	return filter{
		query.Get("namespace"), query.Get("actor"), query.Get("class"), query.Get("driver"), query.Get("node"),
		query.Get("cause"),
	}
}

// isSet reports whether the filter leaves objects out.
func (f filter) isSet() bool { return f != filter{} }

// apply returns the part of a board that the filter chooses.
func (b *board) apply(f filter) *board {
	if !f.isSet() {
		return b
	}
	part := *b
	part.Causes, part.Waits = b.chosen(b.Causes, f), b.chosen(b.Waits, f)
	part.Refused = slices.DeleteFunc(slices.Clone(b.Refused), func(r explain.Finding) bool {
		return f.Cause != "" || f.Namespace != "" && f.Namespace != r.Object.Namespace ||
			f.Actor != "" && f.Actor != string(r.Actor)
	})
	return &part
}

func (b *board) chosen(causes []cause, f filter) (all []cause) {
	for _, c := range causes {
		if f.Actor != "" && f.Actor != string(c.Finding.Actor) || f.Cause != "" && f.Cause != c.ID {
			continue
		}
		objects := slices.DeleteFunc(slices.Clone(c.Objects), func(ref explain.Ref) bool {
			p := b.places[ref]
			return f.Namespace != "" && f.Namespace != ref.Namespace || f.Class != "" && f.Class != p.class ||
				f.Driver != "" && f.Driver != p.driver || f.Node != "" && f.Node != p.node
		})
		if len(objects) > 0 {
			c.Objects = objects
			all = append(all, c)
		}
	}
	return all
}

// objects returns how many objects wait for the causes.
func objects(causes []cause) (n int) {
	for _, c := range causes {
		n += len(c.Objects)
	}
	return n
}

// Stuck returns the number of objects that are stuck.
func (b *board) Stuck() int { return objects(b.Causes) }

// Normal returns the number of objects that wait as they should.
func (b *board) Normal() int { return objects(b.Waits) }

// actorGroup are the causes that one actor has to mend.
type actorGroup struct {
	Actor   explain.Actor
	ID      string
	Objects int
	Causes  []cause
	More    int // causes that are not shown
}

// mostCauses bounds the causes of an actor that a page shows, and what goes on by itself. The others
// are found by a filter.
const mostCauses = 100

// actors are the parties in the order in which their causes are shown.
var actors = []explain.Actor{explain.User, explain.Administrator, explain.Vendor, explain.CloudOwner, explain.Itself}

// ByActor returns the causes by who has to act, without the actors that have nothing to do.
func (b *board) ByActor() (all []actorGroup) {
	for _, actor := range actors {
		g := actorGroup{Actor: actor, ID: "actor-" + idOf(string(actor))}
		for _, c := range b.Causes {
			if c.Finding.Actor == actor {
				g.Causes = append(g.Causes, c)
				g.Objects += len(c.Objects)
			}
		}
		if g.Objects > 0 {
			g.More = max(0, len(g.Causes)-mostCauses)
			g.Causes = firstOf(mostCauses, g.Causes)
			all = append(all, g)
		}
	}
	return all
}

// Shown returns the waits that are shown.
func (b *board) Shown() []cause { return firstOf(mostCauses, b.Waits) }

// MoreWaits returns how many waits are not shown.
func (b *board) MoreWaits() int { return len(b.Waits) - len(b.Shown()) }

// ShownRefused returns the refused changes that are shown.
func (b *board) ShownRefused() []explain.Finding { return firstOf(mostCauses, b.Refused) }

// MoreRefused returns how many refused changes are not shown.
func (b *board) MoreRefused() int { return len(b.Refused) - len(b.ShownRefused()) }

// tally counts the stuck objects by one property.
type tally struct {
	Title string
	Key   string // of the filter
	Rows  []tallyRow
}

// tallyRow is one value of a property.
type tallyRow struct {
	Name    string
	Objects int
	Share   int // of the largest row, in percent
}

// mostRows bounds the rows of a tally.
const mostRows = 12

// Tallies counts the stuck objects per class, driver, node and namespace.
func (b *board) Tallies() (all []tally) {
	for _, by := range []struct {
		title, key string
		of         func(explain.Ref) string
	}{
		{"Class", "class", func(r explain.Ref) string { return b.places[r].class }},
		{"Driver", "driver", func(r explain.Ref) string { return b.places[r].driver }},
		{"Node", "node", func(r explain.Ref) string { return b.places[r].node }},
		{"Namespace", "namespace", func(r explain.Ref) string { return r.Namespace }},
	} {
		counts := map[string]int{}
		for _, c := range b.Causes {
			for _, ref := range c.Objects {
				if name := by.of(ref); name != "" {
					counts[name]++
				}
			}
		}
		if len(counts) > 0 {
			all = append(all, tally{by.title, by.key, rowsOf(counts)})
		}
	}
	return all
}

// rowsOf returns the largest counts first.
func rowsOf(counts map[string]int) (rows []tallyRow) {
	for name, n := range counts {
		rows = append(rows, tallyRow{Name: name, Objects: n})
	}
	slices.SortFunc(rows, func(a, b tallyRow) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Name, b.Name))
	})
	rows = rows[:min(len(rows), mostRows)]
	for i := range rows {
		rows[i].Share = 100 * rows[i].Objects / rows[0].Objects
	}
	return rows
}

// values returns the values that a filter may have, sorted: those of all objects of the board.
func (b *board) values(of func(explain.Ref) string) (all []string) {
	seen := map[string]bool{}
	for ref := range b.places {
		if name := of(ref); name != "" && !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// choice is one select of the filter.
type choice struct {
	Title, Key, Chosen string
	Values             []string
}

// choices returns the selects of the filter. A chosen value that no object has any more stays, so
// that the form says what the address says.
func (b *board) choices(f filter) []choice {
	var parties []string
	for _, actor := range actors[:len(actors)-1] {
		parties = append(parties, string(actor))
	}
	all := []choice{
		{"Who acts", "actor", f.Actor, parties},
		{"Namespace", "namespace", f.Namespace, b.values(func(r explain.Ref) string { return r.Namespace })},
		{"Class", "class", f.Class, b.values(func(r explain.Ref) string { return b.places[r].class })},
		{"Driver", "driver", f.Driver, b.values(func(r explain.Ref) string { return b.places[r].driver })},
		{"Node", "node", f.Node, b.values(func(r explain.Ref) string { return b.places[r].node })},
	}
	for i, c := range all {
		if c.Chosen != "" && !slices.Contains(c.Values, c.Chosen) {
			all[i].Values = append(all[i].Values, c.Chosen)
		}
	}
	return all
}
