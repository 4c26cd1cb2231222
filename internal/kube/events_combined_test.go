package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// eventStore keeps the events that are written to it, as the API server does.
type eventStore struct {
	t      *testing.T
	events []*corev1.Event
}

func (s *eventStore) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	event := object.(*corev1.Event)
	if problems := validation.IsDNS1123Subdomain(event.Name); len(problems) > 0 {
		s.t.Errorf("name %q: %v", event.Name, problems)
	}
	s.events = append(s.events, event.DeepCopy())
	return nil
}

func (s *eventStore) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	for i, event := range s.events {
		if event.Name != object.GetName() {
			continue
		}
		before, _ := json.Marshal(event)
		data, err := patch.Data(object)
		if err != nil || patch.Type() != types.StrategicMergePatchType {
			s.t.Fatal(patch.Type(), err)
		}
		after, err := strategicpatch.StrategicMergePatch(before, data, corev1.Event{})
		if err != nil {
			s.t.Fatal(err)
		}
		s.events[i] = &corev1.Event{}
		return json.Unmarshal(after, s.events[i])
	}
	s.t.Errorf("patch of event %q, which does not exist", object.GetName())
	return nil
}

// EV-2: the event of several messages has the reason of the newest decision, its component and a valid name,
// and so has an event that is repeated.
func TestCombinedEventSaysTheDecision(t *testing.T) {
	for _, name := range []string{"a", strings.Repeat("n", validation.DNS1123SubdomainMaxLength)} {
		store := &eventStore{t: t}
		events := newEvents(t.Context(), EventsConfig{Component: "driver_host"}, store)
		emit := func(decided, message string) {
			events.EventOf(decided, claim(name), corev1.EventTypeWarning, "ProvisioningFailed", message)
		}
		for i := range 11 {
			emit("JournalFull", fmt.Sprintf("entry %d", i))
		}
		emit("CreateFailed", "entry 11")
		emit("CreateExhausted", "entry 12")
		events.Close()
		if len(store.events) != 10 {
			t.Fatalf("%d events, want nine and the combined one", len(store.events))
		}
		for i, event := range store.events {
			want, count := "JournalFull", int32(1)
			if i == 9 {
				want, count = "CreateExhausted", 4
			}
			if event.Annotations[names.AnnReason] != want || event.Count != count || event.ReportingController != "driver_host" {
				t.Errorf("event %q: annotations %v, count %d, of %q; want reason %s, count %d",
					event.Message, event.Annotations, event.Count, event.ReportingController, want, count)
			}
		}
	}
}

// A repeated event has the reason of its newest decision.
func TestRepeatedEventSaysTheNewestDecision(t *testing.T) {
	store := &eventStore{t: t}
	events := newEvents(t.Context(), EventsConfig{Component: "driver_host"}, store)
	for _, decided := range []string{"JournalFull", "CreateFailed"} {
		events.EventOf(decided, claim("a"), corev1.EventTypeWarning, "ProvisioningFailed", "no room")
	}
	events.Close()
	if len(store.events) != 1 || store.events[0].Count != 2 || store.events[0].Annotations[names.AnnReason] != "CreateFailed" {
		t.Errorf("%+v", store.events)
	}
}
