package main

import (
	"strings"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	var some times
	for i := range 100 {
		some.add(time.Millisecond, []time.Duration{time.Duration(100-i) * time.Millisecond})
	}
	for q, want := range map[float64]string{0: "1.0 ms", 0.5: "50.0 ms", 0.99: "99.0 ms", 1: "100.0 ms"} {
		if got := some.quantile(q); got != want {
			t.Errorf("quantile %g is %s, want %s", q, got, want)
		}
	}
	if got := some.rate(); got != "1000.0" {
		t.Errorf("rate %s", got)
	}
	var none times
	if none.rate() != nothing || none.quantile(0.5) != nothing || ratio(1, none.perSecond()) != nothing {
		t.Error("what was not measured has a number")
	}
}

func TestATableLinesUp(t *testing.T) {
	table := newTable("Title", "a", "long column")
	table.row("longer than a", "b")
	table.note("note %d", 1)
	var b strings.Builder
	if err := table.print(&b); err != nil {
		t.Fatal(err)
	}
	const want = "\nTitle\n\n| a             | long column |\n| ---           | --- |\n| longer than a | b |\n\nnote 1\n"
	if b.String() != want {
		t.Errorf("got %q", b.String())
	}
}
