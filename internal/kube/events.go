package kube

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/printable"
)

// EventsConfig configures [NewEvents].
type EventsConfig struct {
	API       *rest.Config
	Component string // the source of the events; the same after a restart, so that they aggregate (H-41)
	Dropped   func() // called for every event that is not written; may be nil
}

// Events writes core/v1 events, which is what upstream's role allows (RB-4). It never blocks and
// never fails a reconcile.
//
// client-go's broadcaster has one writer and a queue of 1000 events. In a burst of claims the queue
// is full and events are dropped. This recorder has several lanes with a writer each. All events of
// one object are in the same lane, so they keep their order.
type Events struct {
	scheme    *runtime.Scheme
	component string
	dropped   func()
	lanes     [eventLanes]lane
	seed      maphash.Seed
	running   sync.WaitGroup
	cancel    context.CancelFunc

	mu     sync.RWMutex // held while an event is put into a lane
	closed bool
}

const (
	eventLanes = 3
	// laneRoom bounds the events that wait in one lane.
	laneRoom = 10000
	// mostWaiting bounds the events that wait in all lanes of all recorders of the process, which is
	// about 20 MB: a process has a recorder per component.
	mostWaiting = eventLanes * laneRoom
	// closeTime is how long the events that wait at the end of the process may take.
	closeTime = 2 * time.Second
)

// waiting counts the events that wait in the process, or are being written.
var waiting atomic.Int64

// lane is a queue of events with one writer.
type lane struct {
	queue      chan *corev1.Event
	correlator *record.EventCorrelator // counts repetitions and limits what one object may say
	sink       eventSink
	log        logr.Logger
}

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
	e := &Events{
		scheme:    Scheme(),
		component: cfg.Component,
		dropped:   cfg.Dropped,
		seed:      maphash.MakeSeed(),
		cancel:    cancel,
	}
	if e.dropped == nil {
		e.dropped = func() {}
	}
	for i := range e.lanes {
		l := &e.lanes[i]
		*l = lane{
			queue: make(
				chan *corev1.Event, laneRoom,
			), correlator: record.NewEventCorrelator(clock.RealClock{}), sink: sink, log: log,
		}
		e.running.Go(func() { l.run(ctx, e.dropped) })
	}
	return e
}

// Event implements the recorder of package reconcile. A message may quote parameters, annotations
// and errors of drivers, so characters that a terminal acts on are escaped.
func (e *Events) Event(object runtime.Object, eventType, reason, message string) {
	event, err := e.make(object, eventType, reason, message)
	if err != nil {
		e.dropped()
		return
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		e.dropped()
		return
	}
	about := event.InvolvedObject
	l := &e.lanes[maphash.String(e.seed, string(about.UID)+about.Namespace+about.Name)%eventLanes]
	if waiting.Add(1) > mostWaiting {
		waiting.Add(-1)
		e.dropped()
		return
	}
	select {
	case l.queue <- event:
	default:
		waiting.Add(-1)
		e.dropped()
	}
}

// Eventf implements the recorder of client-go's leader election.
func (e *Events) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	e.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

func (e *Events) make(object runtime.Object, eventType, reason, message string) (*corev1.Event, error) {
	about, err := reference.GetReference(e.scheme, object)
	if err != nil {
		return nil, err
	}
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      recordutil.GenerateEventName(about.Name, now.UnixNano()),
			Namespace: namespace,
		},
		InvolvedObject: *about, Type: eventType, Reason: reason, Message: printable.Text(message),
		Source: corev1.EventSource{Component: e.component}, ReportingController: e.component,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, nil
}

// Close writes the queued events for at most [closeTime] and stops. Later events are dropped.
func (e *Events) Close() {
	e.mu.Lock()
	for i := range e.lanes {
		close(e.lanes[i].queue)
	}
	e.closed = true
	e.mu.Unlock()
	timer := time.AfterFunc(closeTime, e.cancel)
	defer timer.Stop()
	e.running.Wait()
	e.cancel()
}

func (l *lane) run(ctx context.Context, dropped func()) {
	for event := range l.queue {
		if err := l.write(ctx, event); err != nil {
			dropped()
			l.log.V(2).
				Info(
					"event not written", "reason", event.Reason, "object", event.InvolvedObject.Name, "problem",
					err.Error(),
				)
		}
		waiting.Add(-1)
	}
}

// attempts is the number of attempts to write one event, since a lost connection may recover.
const attempts = 3

func (l *lane) write(ctx context.Context, event *corev1.Event) error {
	result, err := l.correlator.EventCorrelate(event)
	if err != nil || result.Skip {
		return err // skipped: this object has said enough for now
	}
	for attempt := range attempts {
		if err = l.send(ctx, result); err == nil {
			l.correlator.UpdateState(result.Event)
			return nil
		}
		if ctx.Err() != nil || IsRefusal(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(attempt+1) * time.Second):
		}
	}
	return err
}

// send creates an event, or increases the count of an event that was written before. If that event
// has expired in the API server, a new one is created.
func (l *lane) send(ctx context.Context, result *record.EventCorrelateResult) error {
	event := result.Event
	if event.Count > 1 && len(result.Patch) > 0 {
		err := l.sink.Patch(ctx, event, client.RawPatch(types.StrategicMergePatchType, result.Patch))
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	event.ResourceVersion = ""
	err := l.sink.Create(ctx, event)
	if apierrors.IsAlreadyExists(err) { // an earlier attempt arrived, and its answer did not
		return nil
	}
	return err
}
