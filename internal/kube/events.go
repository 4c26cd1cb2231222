package kube

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/printable"
)

// EventsConfig configures [NewEvents].
type EventsConfig struct {
	API       *rest.Config
	Component string // the source of the events; the same after a restart, so that they aggregate (H-41)
	Dropped   func() // called for every event that is not written; may be nil
}

// Events is the recorder of one component. It writes core/v1 events, which is what upstream's role
// allows (RB-4). It never blocks and never fails a reconcile. The recorders of a role share its
// writers and its queue.
type Events struct {
	*eventWriter
	component string
}

// eventWriter writes the events of all components of a role.
//
// client-go's broadcaster has one writer and a queue of 1000 events. In a burst of claims the queue
// is full and events are dropped. This one has several lanes with a writer each. All events of
// one object are in the same lane, so they keep their order.
type eventWriter struct {
	scheme  *runtime.Scheme
	dropped func()
	lanes   [eventLanes]*lane
	seed    maphash.Seed
	running sync.WaitGroup
	cancel  context.CancelFunc
}

const (
	eventLanes = 3
	// mostWaiting bounds the events that wait in the process, which is about 20 MB. Of more events,
	// Normal ones are dropped first.
	mostWaiting = 30000
	// closeTime is how long the events that wait at the end of the process may take.
	closeTime = 2 * time.Second
)

// eventSink writes events to the API server.
type eventSink interface {
	Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error
	Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error
}

// NewEvents starts writing in the background; call Close to stop.
func NewEvents(ctx context.Context, cfg EventsConfig) (*Events, error) {
	own := rest.CopyConfig(cfg.API)
	if throttle, ok := own.RateLimiter.(*Throttle); ok {
		own.RateLimiter = throttle.events
	}
	api, err := client.New(own, client.Options{Scheme: Scheme(), Mapper: eventMapper()})
	if err != nil {
		return nil, err
	}
	return newEvents(ctx, cfg, api), nil
}

// eventMapper maps core/v1 events only. The default mapper of a client reads /api and /apis before
// the first event.
func eventMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	return mapper
}

func newEvents(ctx context.Context, cfg EventsConfig, sink eventSink) *Events {
	log := logr.FromContextOrDiscard(ctx)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &eventWriter{scheme: Scheme(), dropped: cfg.Dropped, seed: maphash.MakeSeed(), cancel: cancel}
	if w.dropped == nil {
		w.dropped = func() {}
	}
	for i := range w.lanes {
		l := newLane(sink, log)
		w.lanes[i] = l
		w.running.Go(func() { l.run(ctx, w.dropped) })
	}
	return &Events{w, cfg.Component}
}

// Of returns the recorder of another component, with the same writers.
func (e *Events) Of(component string) *Events { return &Events{e.eventWriter, component} }

// Event implements the recorder of package reconcile. A message may quote parameters, annotations
// and errors of drivers, so characters that a terminal acts on are escaped.
func (e *Events) Event(object runtime.Object, eventType, reason, message string) {
	e.EventOf(reason, object, eventType, reason, message)
}

// EventOf is [Events.Event] for a decision whose reason is more precise than that of its event.
func (e *Events) EventOf(decided string, object runtime.Object, eventType, reason, message string) {
	event, err := e.make(decided, object, eventType, reason, message)
	if err != nil {
		e.dropped()
		return
	}
	about := event.InvolvedObject
	lane := e.lanes[maphash.String(e.seed, string(about.UID)+about.Namespace+about.Name)%eventLanes]
	if !lane.put(event) {
		e.dropped()
	}
}

// Eventf implements the recorder of client-go's leader election.
func (e *Events) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	e.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

func (e *Events) make(
	decided string, object runtime.Object, eventType, reason, message string,
) (*corev1.Event, error) {
	about, err := reference.GetReference(e.scheme, object)
	if err != nil {
		return nil, err
	}
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	var annotations map[string]string
	if decided != reason {
		annotations = map[string]string{names.AnnReason: decided}
	}
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      recordutil.GenerateEventName(about.Name, now.UnixNano()),
			Namespace: namespace, Annotations: annotations,
		},
		InvolvedObject: *about, Type: eventType, Reason: reason, Message: printable.Text(message),
		Source: corev1.EventSource{Component: e.component}, ReportingController: e.component,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, nil
}

// Close writes the queued events for at most [closeTime] and stops. Later events of all recorders
// that share the writers are dropped.
func (e *Events) Close() {
	for _, l := range e.lanes {
		l.close()
	}
	timer := time.AfterFunc(closeTime, e.cancel)
	defer timer.Stop()
	e.running.Wait()
	e.cancel()
}
