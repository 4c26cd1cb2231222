package kube

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Events writes core/v1 events, which is what upstream's role allows (RB-4). It never blocks and never fails a reconcile:
// an event that cannot be written is dropped.
type Events struct {
	recorder    record.EventRecorder
	broadcaster record.EventBroadcaster
}

// NewEvents starts writing in the background; call Close to stop. The component names the source of the events; it is the same
// after a restart, so that events aggregate (H-41).
func NewEvents(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, component string) (*Events, error) {
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&eventSink{ctx: ctx, api: api, log: logr.FromContextOrDiscard(ctx)})
	return &Events{
		recorder:    broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}),
		broadcaster: broadcaster,
	}, nil
}

// Event implements the recorder of controllers/loop.
func (e *Events) Event(object runtime.Object, eventType, reason, message string) {
	e.recorder.Event(object, eventType, reason, message)
}

// Close stops writing.
func (e *Events) Close() { e.broadcaster.Shutdown() }

// eventSink writes through a plain client, which spares the generated clientset.
type eventSink struct {
	ctx context.Context //nolint:containedctx // the interface of client-go has no context, and this one ends with the process
	api client.Client
	log logr.Logger
}

func (s *eventSink) Create(event *corev1.Event) (*corev1.Event, error) {
	return event, s.api.Create(s.ctx, event)
}

func (s *eventSink) Update(event *corev1.Event) (*corev1.Event, error) {
	return event, s.api.Update(s.ctx, event)
}

func (s *eventSink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return event, s.api.Patch(s.ctx, event, client.RawPatch("application/strategic-merge-patch+json", data))
}
