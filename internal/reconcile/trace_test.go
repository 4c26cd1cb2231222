package reconcile

import (
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/telemetry/tracing"
	"github.com/purser-csi/purser/internal/verdict"
)

// A decision with an effect is a span with the wait that it ends; a wait by itself is none.
func TestTrace(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	task := &script{decide: verdict.Wait[string]{Finding: finding(verdict.WaitForConsumer)}}
	l, _ := newLoop(task)
	l.Tracing = tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), false)
	clock := l.Clock.(*clocktesting.FakeClock)
	run := func(decides v) {
		t.Helper()
		task.decide = decides
		if _, err := l.Reconcile(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Minute)
	}
	run(task.decide)
	run(verdict.Wait[string]{Finding: finding(verdict.WaitForConsumer)})
	run(verdict.Wait[string]{Finding: finding(verdict.WaitForRetry), Until: clock.Now().Add(time.Second)})
	if n := len(recorder.Ended()); n != 0 {
		t.Fatalf("%d spans of waits", n)
	}
	run(verdict.Do[string]{
		Finding: finding(verdict.Provisioning), Actions: []string{"a"},
		Then: verdict.Refuse[string]{Finding: finding(verdict.CreateFailed)},
	})
	run(verdict.Do[string]{
		Finding: finding(verdict.Provisioning), Actions: []string{"a"},
		Then: verdict.Nothing[string]{Finding: finding(verdict.VolumeProvisioned)},
	})
	var got []map[string]string
	for _, span := range recorder.Ended() {
		one := map[string]string{"": span.Name()}
		for _, a := range span.Attributes() {
			one[string(a.Key)] = a.Value.String()
		}
		got = append(got, one)
	}
	if len(got) != 2 {
		t.Fatalf("%d spans", len(got))
	}
	for i, want := range []map[string]string{
		{
			"purser.wait.reason": string(verdict.WaitForConsumer), "purser.wait.seconds": "180",
			"purser.outcome": string(verdict.CreateFailed), "": "test " + string(verdict.Provisioning),
		},
		{
			"purser.wait.reason": string(verdict.CreateFailed), "purser.wait.seconds": "60",
			"purser.outcome": string(verdict.VolumeProvisioned),
		},
	} {
		for key, value := range want {
			if got[i][key] != value {
				t.Errorf("span %d: %s is %q, want %q", i, key, got[i][key], value)
			}
		}
	}
	if len(l.waits.m) != 0 {
		t.Error("a key that has ended waits")
	}
}
