package kube

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// waiting counts the events that wait in the process, or are being written.
var waiting atomic.Int64

// lane is a queue of events with one writer. It has memory only for the events that wait.
type lane struct {
	correlator *record.EventCorrelator // counts repetitions and limits what one object may say
	sink       eventSink
	log        logr.Logger

	mu      sync.Mutex
	arrived *sync.Cond // an event was put, or the lane is closed
	queue   []*corev1.Event
	closed  bool
}

func newLane(sink eventSink, log logr.Logger) *lane {
	l := &lane{correlator: record.NewEventCorrelator(clock.RealClock{}), sink: sink, log: log}
	l.arrived = sync.NewCond(&l.mu)
	return l
}

// put enqueues an event. It returns false if an event was dropped: this one, or for a warning the
// oldest Normal event of the lane in its place.
func (l *lane) put(event *corev1.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	has := waiting.Add(1) <= mostWaiting
	if !has {
		waiting.Add(-1)
		isNormal := func(e *corev1.Event) bool { return e.Type == corev1.EventTypeNormal }
		i := slices.IndexFunc(l.queue, isNormal)
		if i < 0 || isNormal(event) {
			return false
		}
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	l.queue = append(l.queue, event)
	l.arrived.Signal()
	return has
}

// take returns the next event, and waits for it. It returns nil at the end.
func (l *lane) take() *corev1.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		l.queue = nil // the memory of a burst
		if l.closed {
			return nil
		}
		l.arrived.Wait()
	}
	event := l.queue[0]
	l.queue[0], l.queue = nil, l.queue[1:]
	return event
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.arrived.Broadcast()
}

func (l *lane) run(ctx context.Context, dropped func()) {
	for event := l.take(); event != nil; event = l.take() {
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
	if err := complete(result, event); err != nil {
		return err
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

// complete gives the event that client-go's EventAggregate made of several messages what it leaves
// out: the annotations, the controller and a name that is valid for an object with a long one. The
// patch of an event that is repeated gets the reason of the newest decision; with none it keeps the
// earlier one.
func complete(result *record.EventCorrelateResult, event *corev1.Event) error {
	result.Event.Annotations = event.Annotations
	result.Event.ReportingController = event.ReportingController
	result.Event.Name = shortened(result.Event.Name)
	reason := event.Annotations[names.AnnReason]
	if len(result.Patch) == 0 || reason == "" {
		return nil
	}
	patch := map[string]any{}
	if err := json.Unmarshal(result.Patch, &patch); err != nil {
		return err
	}
	patch["metadata"] = map[string]any{"annotations": map[string]string{names.AnnReason: reason}}
	var err error
	result.Patch, err = json.Marshal(patch)
	return err
}

// shortened shortens the part of an event's name that is the name of its object. It returns the same
// for the same name, since the correlator keeps the long one.
func shortened(name string) string {
	over, suffix := len(name)-validation.DNS1123SubdomainMaxLength, strings.LastIndexByte(name, '.')
	if over <= 0 || suffix < over {
		return name
	}
	return strings.TrimRight(name[:suffix-over], ".-") + name[suffix:]
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
