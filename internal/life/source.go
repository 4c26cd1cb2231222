package life

import (
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
	// Index has the changes, if it is kept for other sources too; nil for that of Changes.
	Index *Index
	// Changes are in the order in which they happened, of a source without an index.
	Changes []Change
	// Lock is held while the index is read; nil if no other goroutine uses it.
	Lock Locker
	// Begin is from when on every change is known; not used for a dump.
	Begin time.Time
	// States returns the clusters of some objects; nil if the source is a dump. They are called with
	// the lock.
	States func(Selection) StateFunc
	// Large says that the reasons of a life are looked for among its related objects alone.
	Large bool
	// Final is the cluster at the end.
	Final *explain.Cluster
	// Calls are those that a record has of the roles' HTTP endpoints.
	Calls []Call
}

// Locker is a sync.Locker.
type Locker interface {
	Lock()
	Unlock()
}

// History finds the lives in a source. It is for one goroutine.
type History struct {
	Source
	*Index

	states   map[int]map[explain.Ref]answer // explanations that were made, by the number of changes before
	revision int                            // of the index, to which the numbers belong
}

// New returns the history of a source.
func New(s Source) *History {
	if s.Index == nil {
		s.Index, s.Changes = NewIndex(s.Changes), nil
	}
	return &History{Source: s, Index: s.Index}
}

// locked holds the lock until the returned function is called.
func (h *History) locked() (unlock func()) {
	unlock = func() {}
	if h.Lock != nil {
		h.Lock.Lock()
		unlock = h.Lock.Unlock
	}
	if h.states == nil || h.revision != h.Index.revision {
		h.states, h.revision = map[int]map[explain.Ref]answer{}, h.Index.revision
	}
	return unlock
}

// end is the last moment of the source.
func (h *History) end() time.Time { return h.Final.Now }

// Each calls a function with each change in the order in which they happened.
func (h *History) Each(f func(Change)) {
	defer h.locked()()
	for _, c := range h.changes {
		f(c)
	}
}

// Claims returns all claims of the source in the order of their names.
func (h *History) Claims(namespace string) (all []explain.Ref) {
	defer h.locked()()
	for _, v := range h.ofKind(explain.Claim).sorted() {
		if len(v.numbers) > 0 && (namespace == "" || v.ref.Namespace == namespace) {
			all = append(all, v.ref)
		}
	}
	return all
}

// VersionsOf returns the versions of the objects with a name, in the order in which they happened.
func (h *History) VersionsOf(ref explain.Ref) (all []Change) {
	defer h.locked()()
	if v := h.names[ref]; v != nil {
		for _, n := range v.numbers {
			all = append(all, h.changes[n])
		}
	}
	return all
}

// Newest returns the number of the last change of an object; -1 if there is none.
func (h *History) Newest(ref explain.Ref) int {
	defer h.locked()()
	return h.Last(ref)
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
