package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// slowSink is a slow API server that records the events written to it.
type slowSink struct {
	takes time.Duration
	fails atomic.Int32 // requests that fail before the first succeeds

	mu      sync.Mutex
	created map[string][]string // reasons by object, in order
	counted map[string]int      // patches by object
}

func (s *slowSink) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if s.fails.Add(-1) >= 0 {
		time.Sleep(time.Microsecond)
		return errors.New("connection refused")
	}
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	event := object.(*corev1.Event)
	s.created[event.InvolvedObject.Name] = append(s.created[event.InvolvedObject.Name], event.Reason)
	return nil
}

func (s *slowSink) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted[object.(*corev1.Event).InvolvedObject.Name]++
	return nil
}

func (s *slowSink) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, reasons := range s.created {
		n += len(reasons)
	}
	return n
}

func newSink(takes time.Duration) *slowSink {
	return &slowSink{takes: takes, created: map[string][]string{}, counted: map[string]int{}}
}

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
}

// EV-1, EV-5: a burst of a thousand claims has exactly its two events each, in order, although the
// API server is slow. client-go's broadcaster loses about half of them here.
func TestEventsOfABurst(t *testing.T) {
	sink, dropped := newSink(2*time.Millisecond), atomic.Int32{}
	events := newEvents(t.Context(), EventsConfig{Component: "driver_host", Dropped: func() { dropped.Add(1) }}, sink)
	var burst sync.WaitGroup
	for i := range 1000 {
		burst.Go(func() {
			c := claim(fmt.Sprintf("claim-%d", i))
			events.Event(c, corev1.EventTypeNormal, "Provisioning", "provisioning")
			events.Event(c, corev1.EventTypeNormal, "ProvisioningSucceeded", "done")
		})
	}
	burst.Wait()
	for deadline := time.Now().Add(time.Minute); sink.written() < 2000 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	events.Close()
	if len(sink.created) != 1000 || dropped.Load() != 0 {
		t.Fatalf("events of %d claims, %d dropped", len(sink.created), dropped.Load())
	}
	for name, reasons := range sink.created {
		if len(reasons) != 2 || reasons[0] != "Provisioning" || reasons[1] != "ProvisioningSucceeded" {
			t.Errorf("%s: %q", name, reasons)
		}
	}
}

// A repeated event increases its count. The events of one object are rate limited, without effect
// on other objects.
func TestEventsThatRepeat(t *testing.T) {
	sink := newSink(0)
	events := newEvents(t.Context(), EventsConfig{Component: "driver_host"}, sink)
	for range 100 {
		events.Event(claim("loud"), corev1.EventTypeWarning, "ProvisioningFailed", "no room")
	}
	events.Event(claim("quiet"), corev1.EventTypeWarning, "ProvisioningFailed", "no room")
	events.Close()
	if len(sink.created["loud"]) != 1 || sink.counted["loud"] == 0 || sink.counted["loud"] > 30 {
		t.Errorf("%d created, %d counted", len(sink.created["loud"]), sink.counted["loud"])
	}
	if len(sink.created["quiet"]) != 1 {
		t.Errorf("quiet: %q", sink.created["quiet"])
	}
}

func TestEventsAreTriedAgain(t *testing.T) {
	sink := newSink(0)
	sink.fails.Store(1)
	events := newEvents(t.Context(), EventsConfig{Component: "driver_host"}, sink)
	events.Event(claim("a"), corev1.EventTypeNormal, "Provisioning", "x")
	events.Close()
	if len(sink.created["a"]) != 1 {
		t.Errorf("%q", sink.created)
	}
	events.Event(claim("a"), corev1.EventTypeNormal, "Late", "after the end, no panic")
}

// Objects with names of the greatest length have events too, although an event's name is 17
// characters longer than its object's.
func TestEventsOfLongNames(t *testing.T) {
	e := newEvents(t.Context(), EventsConfig{Component: "c"}, nil)
	defer e.Close()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strings.Repeat("n", validation.DNS1123SubdomainMaxLength)}}
	event, err := e.make("Reason", claim, "Normal", "Reason", "message")
	if err != nil {
		t.Fatal(err)
	}
	if problems := validation.IsDNS1123Subdomain(event.Name); len(problems) > 0 || event.InvolvedObject.Name != claim.Name {
		t.Errorf("%s: %v", event.Name, problems)
	}
}

// A message may quote parameters, annotations and drivers: it has no character that a terminal acts on.
func TestEventsArePrintable(t *testing.T) {
	e := newEvents(t.Context(), EventsConfig{Component: "c"}, nil)
	defer e.Close()
	event, err := e.make("Reason", claim("a"), "Warning", "Reason", "\x1b]0;owned\x07\u202e\nsecond line")
	if err != nil || event.Message != `\x1b]0;owned\a\u202e`+"\nsecond line" {
		t.Errorf("%q, %v", event.Message, err)
	}
}

// All recorders of a process share one bound on the events that wait.
func TestEventsOfAllRecordersHaveOneBound(t *testing.T) {
	waiting.Add(mostWaiting)
	defer waiting.Add(-mostWaiting)
	dropped := 0
	e := newEvents(t.Context(), EventsConfig{Component: "c", Dropped: func() { dropped++ }}, nil)
	e.Event(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "u"}}, corev1.EventTypeNormal, "r", "m")
	e.Close()
	if dropped != 1 || waiting.Load() != mostWaiting {
		t.Errorf("dropped %d, want 1; %d wait, want %d", dropped, waiting.Load(), mostWaiting)
	}
}

// When the queue is full, a warning takes the place of the oldest Normal event of its lane.
func TestEventsDropTheLeastImportant(t *testing.T) {
	l := newLane(nil, logr.Discard())
	event := func(kind, reason string) *corev1.Event { return &corev1.Event{Type: kind, Reason: reason} }
	put := func(kind, reason string, want bool) {
		t.Helper()
		if got := l.put(event(kind, reason)); got != want {
			t.Errorf("%s: nothing dropped is %t", reason, got)
		}
	}
	put(corev1.EventTypeWarning, "w1", true)
	put(corev1.EventTypeNormal, "n1", true)
	put(corev1.EventTypeNormal, "n2", true)
	waiting.Add(mostWaiting)
	defer waiting.Add(-mostWaiting - 3)
	put(corev1.EventTypeNormal, "n3", false)
	put(corev1.EventTypeWarning, "w2", false)
	put(corev1.EventTypeWarning, "w3", false)
	put(corev1.EventTypeWarning, "w4", false)
	l.close()
	var left []string
	for e := l.take(); e != nil; e = l.take() {
		left = append(left, e.Reason)
	}
	if !slices.Equal(left, []string{"w1", "w2", "w3"}) {
		t.Errorf("left are %v", left)
	}
	if n := waiting.Load() - mostWaiting; n != 3 {
		t.Errorf("%d count as waiting", n)
	}
}

// The recorders of all components share one queue, which has no memory while it is empty.
func TestEventsOfComponents(t *testing.T) {
	sink := newSink(0)
	events := newEvents(t.Context(), EventsConfig{Component: "a"}, sink)
	other := events.Of("b")
	other.Event(claim("c"), corev1.EventTypeNormal, "Reason", "m")
	made, err := other.make("Reason", claim("c"), "Normal", "Reason", "m")
	if err != nil || made.Source.Component != "b" {
		t.Errorf("the source is %v, %v", made, err)
	}
	events.Close()
	if len(sink.created["c"]) != 1 {
		t.Errorf("created %v", sink.created)
	}
	for _, l := range events.lanes {
		if l.queue != nil {
			t.Errorf("an empty queue has room for %d events", cap(l.queue))
		}
	}
}

// The first event of a process costs one request: the API server is not asked for its resources.
func TestEventsNeedNoDiscovery(t *testing.T) {
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Event"}`))
	}))
	defer server.Close()
	events, err := NewEvents(t.Context(), EventsConfig{API: &rest.Config{Host: server.URL}, Component: "test"})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
	events.Event(pod, corev1.EventTypeNormal, "Reason", "message")
	events.Close()
	close(asked)
	if first, more := <-asked, len(asked); first != "POST /api/v1/namespaces/ns/events" || more > 0 {
		t.Errorf("%s, and %d more requests", first, more)
	}
}

// An event has the reason of its decision where that is more precise, and no annotation where it is the same.
func TestEventSaysTheDecision(t *testing.T) {
	events := newEvents(t.Context(), EventsConfig{Component: "driver_host"}, newSink(0))
	defer events.Close()
	for decided, want := range map[string]string{"JournalFull": "JournalFull", "ProvisioningFailed": ""} {
		event, err := events.make(decided, claim("a"), corev1.EventTypeWarning, "ProvisioningFailed", "no room")
		if err != nil || event.Annotations[names.AnnReason] != want || event.Reason != "ProvisioningFailed" {
			t.Errorf("%s: %v, reason %s, annotations %v", decided, err, event.Reason, event.Annotations)
		}
	}
}
