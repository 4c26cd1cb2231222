package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Event is one watch event. The object must not be changed.
type Event struct {
	Type   watch.EventType
	Object client.Object // of a deletion: the last state, under the version of the deletion
	At     int64         // the resource version
}

// Server holds the objects. It is safe for concurrent use.
type Server struct {
	mu        sync.Mutex
	version   int64
	created   int
	tables    map[*strategy]*table
	listeners []chan<- struct{}
}

type table struct {
	objects map[types.NamespacedName]client.Object
	history []Event
}

// New returns an empty server.
func New() *Server {
	s := &Server{version: 100, tables: map[*strategy]*table{}}
	for _, st := range strategies {
		s.tables[st] = &table{objects: map[types.NamespacedName]client.Object{}}
	}
	return s
}

// Listen notifies a channel of every change; a full channel has a notification already.
func (s *Server) Listen(changed chan<- struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, changed)
}

// History is everything that happened to a kind, from the n-th event on.
func (s *Server) History(kind client.Object, n int) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.tables[strategyFor(kind)].history
	return slices.Clone(all[min(n, len(all)):])
}

// Objects returns copies of all objects of a kind, sorted by name.
func Objects[T client.Object](s *Server, kind T) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []T
	for _, o := range s.tables[strategyFor(kind)].sorted() {
		all = append(all, o.DeepCopyObject().(T))
	}
	return all
}

func (t *table) sorted() []client.Object {
	all := make([]client.Object, 0, len(t.objects))
	for _, o := range t.objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b client.Object) int {
		return strings.Compare(client.ObjectKeyFromObject(a).String(), client.ObjectKeyFromObject(b).String())
	})
	return all
}

// commit stores a new state of an object. The caller holds mu.
func (s *Server) commit(st *strategy, what watch.EventType, o client.Object) {
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	t, key := s.tables[st], client.ObjectKeyFromObject(o)
	if what == watch.Deleted {
		delete(t.objects, key)
	} else {
		t.objects[key] = o
	}
	t.history = append(t.history, Event{Type: what, Object: o, At: s.version})
	for _, l := range s.listeners {
		select {
		case l <- struct{}{}:
		default:
		}
	}
}

func (s *Server) get(st *strategy, key types.NamespacedName) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.tables[st].objects[key]
	if have == nil {
		return nil, apierrors.NewNotFound(st.resource, key.Name)
	}
	return clone(have), nil
}

func (s *Server) create(st *strategy, in client.Object) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.GetResourceVersion() != "" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "resourceVersion should not be set on objects to be created",
		}}
	}
	o, err := transmit(st, in)
	if err != nil {
		return nil, err
	}
	if s.tables[st].objects[client.ObjectKeyFromObject(o)] != nil {
		return nil, apierrors.NewAlreadyExists(st.resource, o.GetName())
	}
	return clone(s.insert(st, o)), nil
}

// managedFields are those of every object: that there are some tells an object from what a cache
// keeps of it.
var managedFields = []metav1.ManagedFieldsEntry{{Manager: "other", Operation: metav1.ManagedFieldsOperationUpdate}}

func (s *Server) insert(st *strategy, o client.Object) client.Object {
	s.created++
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.created)))
	o.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetManagedFields(managedFields)
	if st.admit != nil {
		st.admit(o)
	}
	s.commit(st, watch.Added, o)
	return o
}

func (s *Server) delete(st *strategy, key types.NamespacedName, only *metav1.Preconditions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.tables[st].objects[key]
	if have == nil {
		return apierrors.NewNotFound(st.resource, key.Name)
	}
	if err := unmet(st.resource, have, only); err != nil {
		return err
	}
	next := clone(have)
	switch {
	case len(have.GetFinalizers()) == 0:
		s.commit(st, watch.Deleted, next)
	case have.GetDeletionTimestamp() == nil:
		markDeleted(next)
		s.commit(st, watch.Modified, next)
	}
	return nil
}

func markDeleted(o client.Object) {
	now := metav1.Now().Rfc3339Copy()
	o.SetDeletionTimestamp(&now)
	o.SetDeletionGracePeriodSeconds(new(int64))
}

func unmet(resource schema.GroupResource, have client.Object, only *metav1.Preconditions) error {
	switch {
	case only == nil:
		return nil
	case only.UID != nil && *only.UID != have.GetUID():
		return apierrors.NewConflict(
			resource,
			have.GetName(),
			fmt.Errorf("the uid in the precondition is %s, that of the object is %s", *only.UID, have.GetUID()),
		)
	case only.ResourceVersion != nil && *only.ResourceVersion != have.GetResourceVersion():
		return apierrors.NewConflict(resource, have.GetName(), fmt.Errorf("the object has been modified"))
	}
	return nil
}

func clone(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }

func addFinalizer(o client.Object, finalizer string) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(o.GetFinalizers(), finalizer))
	}
}
