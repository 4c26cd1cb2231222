package life

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// Index finds changes by their objects, and objects by those that they name. It is extended by new
// changes, so that the histories of successive times share it. It is for one goroutine at a time.
type Index struct {
	changes  []Change // in the order in which they happened
	names    map[explain.Ref]*versions
	kinds    map[explain.Kind]*objects
	related  map[relation][]*versions
	events   map[explain.Ref][]int // by the object that they are about
	revision int                   // grows when a change gets another number
}

// versions are the numbers of the changes of the objects with one name, ascending.
type versions struct {
	ref     explain.Ref
	numbers []int
	listed  bool // it was added to the lists of its relations before
}

// objects are those of one kind.
type objects struct {
	all      []*versions
	isSorted bool
}

// NewIndex returns the index of changes, which are in the order in which they happened.
func NewIndex(changes []Change) *Index {
	x := &Index{}
	x.Revise(0, changes)
	return x
}

// Changes returns all changes in the order in which they happened. They must not be changed, and are
// valid until the next call of Revise.
func (x *Index) Changes() []Change { return x.changes }

// Len returns the number of names of objects.
func (x *Index) Len() int { return len(x.names) }

// Revise replaces the changes from a number on.
func (x *Index) Revise(from int, changes []Change) {
	if from < len(x.changes) || from == 0 {
		x.revision++
	}
	if from == 0 {
		x.changes = make([]Change, 0, len(changes))
		x.names, x.kinds = map[explain.Ref]*versions{}, map[explain.Kind]*objects{}
		x.related, x.events = map[relation][]*versions{}, map[explain.Ref][]int{}
	}
	for len(x.changes) > from {
		x.pop()
	}
	for _, c := range changes {
		x.push(c)
	}
}

// Replace sets the object of a change, of the same name, uid and relations.
func (x *Index) Replace(n int, o metav1.Object) { x.changes[n].Object = o }

// pop removes the last change. The lists of relations keep its object: each use of them looks at the
// versions themselves.
func (x *Index) pop() {
	last := len(x.changes) - 1
	c := x.changes[last]
	v := x.names[refOf(c)]
	v.numbers = v.numbers[:len(v.numbers)-1]
	if about, is := aboutOf(c.Object); is {
		x.events[about] = x.events[about][:len(x.events[about])-1]
	}
	x.changes[last] = Change{} // frees its object
	x.changes = x.changes[:last]
}

func (x *Index) push(c Change) {
	n, ref := len(x.changes), refOf(c)
	v := x.names[ref]
	if v == nil {
		v = &versions{ref: ref}
		x.names[ref] = v
		x.ofKind(c.Kind).add(v)
	}
	x.relate(v, c.Object)
	x.changes = append(x.changes, c)
	v.numbers = append(v.numbers, n)
	if about, is := aboutOf(c.Object); is {
		x.events[about] = append(x.events[about], n)
	}
}

// relate adds an object to the lists of the relations that a new version has, and the one before had
// not.
func (x *Index) relate(v *versions, o metav1.Object) {
	has := relationsOf(o)
	if len(has) == 0 {
		return
	}
	var had []relation
	if n := len(v.numbers); n > 0 {
		had = relationsOf(x.changes[v.numbers[n-1]].Object)
	}
	for i, r := range has {
		isNew := !slices.Contains(had, r) && !slices.Contains(has[:i], r)
		if isNew && (!v.listed || !slices.Contains(x.related[r], v)) {
			x.related[r] = append(x.related[r], v)
		}
	}
	v.listed = true
}

func (x *Index) ofKind(kind explain.Kind) *objects {
	of := x.kinds[kind]
	if of == nil {
		of = &objects{}
		x.kinds[kind] = of
	}
	return of
}

func (o *objects) add(v *versions) { o.all, o.isSorted = append(o.all, v), false }

// sorted returns the objects in the order of an API server.
func (o *objects) sorted() []*versions {
	if !o.isSorted {
		slices.SortFunc(o.all, byName)
		o.isSorted = true
	}
	return o.all
}

func byName(a, b *versions) int {
	return cmp.Or(cmp.Compare(a.ref.Namespace, b.ref.Namespace), cmp.Compare(a.ref.Name, b.ref.Name))
}

// Last returns the number of the last change of the objects with a name; -1 if there is none.
func (x *Index) Last(ref explain.Ref) int {
	v := x.names[ref]
	if v == nil || len(v.numbers) == 0 {
		return -1
	}
	return v.numbers[len(v.numbers)-1]
}

// Selection are objects of an index, by their names, in the order of an API server. It is valid until
// the index is extended.
type Selection struct {
	index   *Index
	objects []*versions
}

// All returns all objects.
func (x *Index) All() Selection {
	s := Selection{index: x}
	for _, kind := range slices.Sorted(maps.Keys(x.kinds)) {
		s.objects = append(s.objects, x.kinds[kind].sorted()...)
	}
	return s
}

// Each calls a function with those objects that exist after the first n changes.
func (s Selection) Each(n int, f func(metav1.Object)) {
	for _, v := range s.objects {
		if i, _ := slices.BinarySearch(v.numbers, n); i > 0 {
			if c := &s.index.changes[v.numbers[i-1]]; !c.Deleted {
				f(c.Object)
			}
		}
	}
}

// identity tells an object from a later one with its name. A dump may lack uids.
type identity struct {
	explain.Ref

	uid types.UID
}

func identityOf(c Change) identity { return identity{refOf(c), c.Object.GetUID()} }

func refOf(c Change) explain.Ref {
	return explain.Ref{Kind: c.Kind, Namespace: c.Object.GetNamespace(), Name: c.Object.GetName()}
}

// versions returns the numbers of the changes of an object.
func (x *Index) versions(of identity) (all []int) {
	v := x.names[of.Ref]
	if v == nil {
		return nil
	}
	for _, n := range v.numbers {
		if x.changes[n].Object.GetUID() == of.uid {
			all = append(all, n)
		}
	}
	return all
}

// last returns the newest version of an object; nil if there is none.
func (x *Index) last(of identity) *Change {
	v := x.names[of.Ref]
	if v == nil {
		return nil
	}
	for _, n := range slices.Backward(v.numbers) {
		if c := &x.changes[n]; c.Object.GetUID() == of.uid {
			return c
		}
	}
	return nil
}

// named returns the identity of the object with a name that appeared last; the zero value for none.
func (x *Index) named(ref explain.Ref) (newest identity) {
	if v := x.names[ref]; v != nil {
		for _, found := range x.among(v) {
			newest = found.identity
		}
	}
	return newest
}

// appearance is an object with the number of its first change.
type appearance struct {
	identity

	first int
	holds bool
}

// among returns the objects with a name, in the order in which they appear.
func (x *Index) among(v *versions) (all []appearance) {
	for _, n := range v.numbers {
		uid := x.changes[n].Object.GetUID()
		if !slices.ContainsFunc(all, func(a appearance) bool { return a.uid == uid }) {
			all = append(all, appearance{identity: identity{v.ref, uid}, first: n})
		}
	}
	return all
}

// identities returns the objects with some names of which a version holds, in the order in which they
// appear.
func (x *Index) identities(among []*versions, holds func(Change) bool) (all []identity) {
	var found []appearance
	for _, v := range among {
		objects := x.among(v)
		for _, n := range v.numbers {
			if c := x.changes[n]; holds(c) {
				i := slices.IndexFunc(objects, func(a appearance) bool { return a.uid == c.Object.GetUID() })
				objects[i].holds = true
			}
		}
		found = append(found, objects...)
	}
	slices.SortFunc(found, func(a, b appearance) int { return cmp.Compare(a.first, b.first) })
	for _, a := range found {
		if a.holds {
			all = append(all, a.identity)
		}
	}
	return all
}
