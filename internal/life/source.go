package life

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// Change is one version of one object.
type Change struct {
	// At is when a watch delivered the version; zero for one from a dump.
	At time.Time
	// Existed says that the version is older than At, so that only the object itself tells when it
	// was written.
	Existed bool
	Kind    explain.Kind
	Object  metav1.Object
	Deleted bool     // Object is the last version
	By      []string // managers whose fields changed
	Changed []string // paths of the fields that changed
}

// Source is what lives are derived from. Its objects must not be changed.
type Source struct {
	// Changes are in the order in which they happened.
	Changes []Change
	// Begin is from when on Changes has every change; not used for a dump.
	Begin time.Time
	// State returns the cluster after the first n changes at a time; nil if the source is a dump.
	State StateFunc
	// Narrow returns State for the objects of which a version holds; nil for a source that is small
	// enough to look at all of them.
	Narrow func(holds func(metav1.Object) bool) StateFunc
	// Final is the cluster at the end.
	Final *explain.Cluster
	// Calls are those that a record has of the roles' HTTP endpoints.
	Calls []Call
}

// History finds the lives in a source. It is for one goroutine.
type History struct {
	Source
	ofKind map[explain.Kind][]string      // identities by kind, in the order in which they appear
	byUID  map[string][]int               // changes by the identity of the object
	newest map[explain.Ref]string         // identity of the newest object with a name
	events map[explain.Ref][]int          // events by the object that they are about
	states map[int]map[explain.Ref]answer // explanations that were made
}

// New returns the history of a source.
func New(s Source) *History {
	h := &History{
		Source: s, ofKind: map[explain.Kind][]string{}, byUID: map[string][]int{}, newest: map[explain.Ref]string{},
		events: map[explain.Ref][]int{}, states: map[int]map[explain.Ref]answer{},
	}
	for i, c := range s.Changes {
		uid := identity(c)
		if h.byUID[uid] == nil {
			h.ofKind[c.Kind] = append(h.ofKind[c.Kind], uid)
			h.newest[refOf(c)] = uid
		}
		h.byUID[uid] = append(h.byUID[uid], i)
		if about, ok := aboutOf(c.Object); ok {
			h.events[about] = append(h.events[about], i)
		}
	}
	return h
}

// identity tells an object from a later one with its name, and from one of another kind with its
// uid, as a file written by hand may have. A dump may lack uids.
func identity(c Change) string {
	if uid := c.Object.GetUID(); uid != "" {
		return string(c.Kind) + "/" + string(uid)
	}
	return refOf(c).String()
}

func refOf(c Change) explain.Ref {
	return explain.Ref{Kind: c.Kind, Namespace: c.Object.GetNamespace(), Name: c.Object.GetName()}
}

// end is the last moment of the source.
func (h *History) end() time.Time { return h.Final.Now }

// versions returns the changes of the object with an identity.
func (h *History) versions(uid string) []int { return h.byUID[uid] }

// identities returns the identities of the objects of a kind of which a version holds, in the order
// in which they appear.
func (h *History) identities(kind explain.Kind, holds func(Change) bool) (all []string) {
	for _, uid := range h.ofKind[kind] {
		if slices.ContainsFunc(h.byUID[uid], func(i int) bool { return holds(h.Changes[i]) }) {
			all = append(all, uid)
		}
	}
	return all
}

// named returns the identity of the newest object with a name; empty for none.
func (h *History) named(ref explain.Ref) string { return h.newest[ref] }

// last returns the newest version of an object; nil if there is none.
func (h *History) last(uid string) *Change {
	all := h.byUID[uid]
	if len(all) == 0 {
		return nil
	}
	return &h.Changes[all[len(all)-1]]
}

// Claims returns all claims of the source, the newest of each name, in the order of their names.
func (h *History) Claims(namespace string) (all []explain.Ref) {
	seen := map[explain.Ref]bool{}
	for _, uid := range h.ofKind[explain.Claim] {
		ref := refOf(*h.last(uid))
		if !seen[ref] && (namespace == "" || ref.Namespace == namespace) {
			seen[ref] = true
			all = append(all, ref)
		}
	}
	slices.SortFunc(all, func(a, b explain.Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// OfCluster returns the source that has one version of each object: that of a cluster or a dump.
func OfCluster(c *explain.Cluster) Source {
	s := Source{Final: c}
	s.Changes = slices.Concat(
		changesOf(explain.Claim, c.Claims), changesOf(explain.Volume, c.Volumes), changesOf(explain.Pod, c.Pods),
		changesOf(explain.Attachment, c.Attachments), changesOf(explain.Snapshot, c.Snapshots),
		changesOf(explain.Content, c.Contents), changesOf(explain.Event, c.Events),
	)
	return s
}

func changesOf[T metav1.Object](kind explain.Kind, objects []T) (all []Change) {
	for _, o := range objects {
		all = append(all, Change{Kind: kind, Object: o})
	}
	return all
}
