package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 0, 100)
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)) // not sorted
	}
	for _, tc := range []struct {
		times   []time.Duration
		percent int
		want    time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 50, 7},
		{[]time.Duration{7}, 99, 7},
		{[]time.Duration{2, 1}, 50, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		if got := Percentile(tc.times, tc.percent); got != tc.want {
			t.Errorf("%d%% of %v: %d, want %d", tc.percent, tc.times, got, tc.want)
		}
	}
}

// Contenders with short names are selected by these, all others by a part of the name. A name that no
// contender has is an error before the measurement begins.
func TestOnly(t *testing.T) {
	short := []Contender{{Short: "stock", Name: "stock"}, {Short: "shipped", Name: "stock as shipped"}, {Short: "plane", Name: "plane"}}
	long := []Contender{{Name: "ours"}, {Name: "stock, limits lifted"}, {Name: "stock, as shipped"}}
	for _, tc := range []struct {
		all        []Contender
		only, want string // names, or the start of an error
	}{
		{short, "", "stock; stock as shipped; plane"},
		{short, "stock", "stock"},
		{short, "stock,plane", "stock; plane"},
		{short, "stock,other", `-only=stock,other: there is no contender "other", but stock; shipped; plane`},
		{long, "", "ours; stock, limits lifted; stock, as shipped"},
		{long, "stock, limits", "stock, limits lifted"},
		{long, "stock", "stock, limits lifted; stock, as shipped"},
		{long, "other", `-only=other: there is no contender "other", but ours; stock`},
	} {
		o := Options{Only: tc.only, Rounds: 1}
		if err := o.check(tc.all); err != nil {
			if !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("-only=%s: %v, want %s", tc.only, err, tc.want)
			}
			continue
		}
		var names []string
		for _, one := range tc.all {
			if o.selects(tc.all, one) {
				names = append(names, one.Name)
			}
		}
		if got := strings.Join(names, "; "); got != tc.want {
			t.Errorf("-only=%s: %s, want %s", tc.only, got, tc.want)
		}
	}
}

// The contenders take turns in each part, in every second round the other way around.
func TestTurns(t *testing.T) {
	r := &Run{Options: Options{Rounds: 2}, Contenders: []Contender{{Name: "a"}, {Name: "b"}}}
	var got []string
	part := func(name string, skips func(Contender) bool) Part {
		return Part{Name: name, Skips: skips, Measure: func(_ context.Context, one *Running) error {
			got = append(got, name+one.Name)
			return nil
		}}
	}
	if err := r.Turns(t.Context(), part("x", nil), part("y", func(c Contender) bool { return c.Name == "a" })); err != nil {
		t.Fatal(err)
	}
	if want := []string{"xa", "xb", "yb", "xb", "xa", "yb"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	failed := errors.New("no volume")
	err := r.Turns(t.Context(), Part{Name: "x", Measure: func(context.Context, *Running) error { return failed }})
	if !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
}

func TestMedians(t *testing.T) {
	r := &Run{Options: Options{Rounds: 3}, Contenders: []Contender{{Name: "ours"}, {Name: "stock", Baseline: true}}}
	for _, perSecond := range []float64{30, 10, 20} {
		r.Rate(&Running{Contender: r.Contenders[0]}, "expand", perSecond)
		r.Rate(&Running{Contender: r.Contenders[1]}, "expand", perSecond/2)
	}
	got := strings.Join(strings.Fields(r.medians()), " ")
	want := "expand, median of rounds: 3 ours 20/s, ratio 2.00 to stock (10 to 30) stock 10/s (5 to 15)"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
