package ui

import (
	"strings"
	"testing"
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// The drawing first shows the phase of interest: the creation of a volume that has been used for
// hours since. Each interval has a bar that leads to its row.
func TestPlot(t *testing.T) {
	s := stateOf(t, objectsText)
	s.mu.Lock()
	defer s.mu.Unlock()
	lives := s.livesOf(explain.Ref{Kind: explain.Claim, Namespace: "shop", Name: "data"})
	if len(lives) != 1 {
		t.Fatalf("%d lives", len(lives))
	}
	v := s.view(0, lives[0])
	if shown := v.Plot.ViewTo.Sub(v.Plot.ViewFrom); shown > time.Minute {
		t.Errorf("%s are shown first", shown)
	}
	if v.Plot.To != noon || len(v.Plot.Ticks) < 2 {
		t.Errorf("the plot ends at %s, with ticks %+v", v.Plot.To, v.Plot.Ticks)
	}
	bars := map[string]bar{}
	for _, b := range v.Plot.Bars {
		bars[b.ID] = b
		if !strings.HasSuffix(b.X, "%") || strings.Contains(b.X+b.Width, "NaN") || strings.HasPrefix(b.Width, "-") {
			t.Errorf("bar %+v", b)
		}
	}
	slowest := 0
	for _, phase := range v.Phases {
		for _, i := range append([]intervalView{{ID: phase.ID}}, phase.Intervals...) {
			if _, has := bars[i.ID]; !has {
				t.Errorf("%s has no bar", i.ID)
			}
			if i.Slowest {
				slowest++
			}
		}
	}
	if slowest != 1 {
		t.Errorf("%d intervals are the slowest", slowest)
	}
}

// A life without length, as of an object that was just created, is drawn.
func TestPlotOfAnInstant(t *testing.T) {
	p := plotOf(lifeView{}, time.Time{})
	if !p.To.After(p.From) || len(p.Ticks) == 0 {
		t.Errorf("%+v", p)
	}
}

// Ticks have round distances, at most six of them.
func TestTicks(t *testing.T) {
	for _, span := range []time.Duration{3 * time.Millisecond, time.Second, 90 * time.Second, 5 * time.Hour, 400 * 24 * time.Hour} {
		ticks := ticksOf(noon, noon.Add(span), noon)
		if len(ticks) == 0 || len(ticks) > mostTicks+1 || ticks[0].Text != "+0 ms" {
			t.Errorf("%s: %+v", span, ticks)
		}
	}
}

// What a write changed is each leaf before and after, without what every write changes.
func TestDiff(t *testing.T) {
	s := stateOf(t, objectsText)
	before := s.Cluster.Claims[0].DeepCopy()
	after := before.DeepCopy()
	after.ResourceVersion, after.Status.Phase = "2", "Bound"
	after.Spec.VolumeName = "pv-2"
	after.Annotations = map[string]string{"a": strings.Repeat("x", 2*mostOfText)}
	fields := diff(before, after)
	if len(fields) != 3 || fields[0].Path != "metadata.annotations.a" || len(fields[0].After) > mostOfText+8 ||
		fields[1] != (fieldChange{"spec.volumeName", "", "pv-2"}) || fields[2] != (fieldChange{"status.phase", "Pending", "Bound"}) {
		t.Errorf("%+v", fields)
	}
	if created := diff(nil, after); len(created) < 5 || created[0].Before != "" {
		t.Errorf("of a new object: %+v", created)
	}
}

// The texts of durations, sizes and sentences.
func TestTexts(t *testing.T) {
	for got, want := range map[string]string{
		took(12 * time.Millisecond): "12 ms", took(1500 * time.Millisecond): "1.5 s", took(61 * time.Second): "1 min 01 s",
		took(3 * time.Hour): "3 h 00 min", took(50 * time.Hour): "2 d 02 h", took(-time.Second): "-1.0 s",
		sizeText(0): "0 B", sizeText(1536): "1.5 KiB", sizeText(3 << 30): "3 GiB",
		sentence("it waits"): "It waits.", sentence("why?"): "Why?", sentence(`it said "no."`): `It said "no."`,
		sentence("dump.json is torn"): "dump.json is torn.", sentence("über"): "Über.",
		idOf("Class Missing", "pvc/a"): "class_20missing-pvc_2fa",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
