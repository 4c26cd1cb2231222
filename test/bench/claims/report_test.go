package claims

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
)

// in is a course of four claims.
func in(took, each time.Duration) course {
	return course{took: took, times: []time.Duration{each, each, each, each}}
}

// Of each trial and contender the round in the middle counts.
func TestTakeMiddle(t *testing.T) {
	var o outcome
	for _, seconds := range []time.Duration{3, 1, 2} {
		o.every = append(o.every,
			row{trial: trialDynamic, contender: nameOurs, claims: 12, course: in(seconds*time.Second, 1)},
			row{trial: trialDelete, contender: nameOurs, claims: 12, course: in(2*seconds*time.Second, 1)})
	}
	o.takeMiddle()
	if len(o.rows) != 2 || o.rows[0].took != 2*time.Second || o.rows[1].took != 4*time.Second {
		t.Errorf("%+v", o.rows)
	}
	if span := o.span(o.rows[0]); !strings.Contains(span, "4 to 12 per s") {
		t.Errorf("span %q", span)
	}
}

// Each round is compared with itself: here the machine is three times as fast in the second, and
// the floor's slowest round is not the one in which ours was slowest.
func TestRoundsAreComparedWithThemselves(t *testing.T) {
	var o outcome
	for _, seconds := range [][2]time.Duration{{10, 8}, {3, 2}, {5, 3}} {
		o.every = append(o.every,
			row{trial: trialDynamic, contender: nameOurs, floor: nameFloor5, claims: 12, course: in(seconds[0]*time.Second, 1)},
			row{trial: trialDynamic, contender: nameFloor5, claims: 12, course: in(seconds[1]*time.Second, 1)})
	}
	o.takeMiddle()
	if got := o.against(o.rows[0]).floor; got != "0.67" { // of 0.80, 0.67 and 0.60
		t.Errorf("of floor %s", got)
	}
}

func TestSessions(t *testing.T) {
	var got []string
	for _, together := range sessions(trials()) {
		var names []string
		for _, one := range together {
			names = append(names, one.name)
		}
		got = append(got, strings.Join(names, " and "))
	}
	want := []string{trialOne, trialDynamic + " and " + trialDelete, "static, pre-bound", "static, matched"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReport(t *testing.T) {
	creates := audit.Request{User: userProvisioner, Verb: "create", Resource: "persistentvolumes"}
	patches := audit.Request{User: "ours", Verb: "patch", Resource: "persistentvolumeclaims/status"}
	o := outcome{claims: 4, pairs: 9, every: []row{
		{trial: trialDynamic, contender: nameFloor5, claims: 4, course: in(time.Second, 1)},
		{
			trial: trialDynamic, contender: nameStock, floor: nameFloor5, claims: 4, course: in(4*time.Second, 9*time.Second),
			asked: audit.Tally{{User: userBinder, Verb: "update", Resource: "persistentvolumes/status"}: {200: 4}},
			made: audit.Tally{
				creates: {201: 4, 409: 2},
				{User: creates.User, Verb: "create", Resource: "events"}:         {201: 8},
				{User: creates.User, Verb: "watch", Resource: creates.Resource}:  {200: 40},
				{User: creates.User, Verb: "get", Resource: "/api/v1?discovery"}: {200: 9},
			},
			calls: scrape.Calls{"CreateVolume": 5},
			pace: pace{
				asked:   audit.Moments{time.UnixMilli(0), time.UnixMilli(1000)},
				written: audit.Moments{time.UnixMilli(10), time.UnixMilli(2010)},
			},
		},
		{
			trial: trialDynamic, contender: nameSlow, floor: nameFloor5, claims: 4, course: in(4*time.Second, 9*time.Second),
			made: audit.Tally{creates: {201: 4}, {User: creates.User, Verb: "update", Resource: "leases"}: {200: 4}},
			pace: pace{
				asked:   audit.Moments{time.UnixMilli(0), time.UnixMilli(1000)},
				written: audit.Moments{time.UnixMilli(10), time.UnixMilli(1010)},
			},
		},
		{trial: trialDelete, contender: nameSlow, floor: nameFloor5, claims: 4, course: in(4*time.Second, 9*time.Second), made: audit.Tally{creates: {404: 1}}},
		{
			trial: trialDynamic, contender: nameAlone, floor: nameFloor5, claims: 4, course: in(4*time.Second, 9*time.Second),
			pace: pace{
				asked:   audit.Moments{time.UnixMilli(0), time.UnixMilli(1000)},
				written: audit.Moments{time.UnixMilli(10), time.UnixMilli(1260)},
			},
		},
		{
			trial: trialDynamic, contender: nameLate, floor: nameFloor5, claims: 4, course: in(4*time.Second, 9*time.Second),
			pace: pace{
				asked:   audit.Moments{time.UnixMilli(0), time.UnixMilli(1000)},
				written: audit.Moments{time.UnixMilli(2000), time.UnixMilli(2500)},
			},
		},
		{
			trial: trialDynamic, contender: nameOurs, floor: nameFloor5, claims: 4, course: in(2*time.Second, 3*time.Second),
			asked: audit.Tally{patches: {200: 4}}, spent: [3]runner.Usage{ours: {CPU: 8 * time.Millisecond}, servers: {CPU: 20 * time.Millisecond}},
		},
	}, idle: []idleResult{{contender: nameOurs, after: 0.02, share: 0.01}}}
	o.takeMiddle()
	report := o.report()
	words := strings.Join(strings.Fields(report), " ")
	for _, want := range []string{
		"purser 2.0 0.50 2.00 3000 3000 0.33", // per second, of the floor, of stock's
		"purser 2.00% 1.00% 0", "its provisioner 1.50 - - - - 2.00 2", "purser - - 1.00", "purser 2.00 -",
		"of the floor 0.50 >= 0.80 NOT MET", "x stock 2.00 >= 1.80 met", "p99 of stock's 0.33 <= 0.33 met", "idle: percent of a core 1.00 <= 0.20 NOT MET",
		"beside stock: PVs written per PV asked for, in rate 0.50 (", "at last 1010 ms", "a bare client reaches 0.80, and this one 0.63 of that", "writes of the provisioner, created 1.50 <= 1.40 NOT MET",
		"as shipped: PVs written per PV asked for, in rate 1.00 >= 1.00 met", "as shipped: writes of the provisioner, created 2.00 <= 1.40 NOT MET",
		"as shipped: DeleteVolume 0.00 <= 1.00 met as shipped: answers 404 and 409 to it 1 <= 0 NOT MET",
		"after stock: PVs written per PV asked for, in rate 2.00 >= 1.00 met", "CreateVolume 1.25 <= 1.00 NOT MET", "404 and 409 to it 2 <= 0 NOT MET",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
	for line := range strings.Lines(report) {
		if len(line) > 81 {
			t.Errorf("longer than 80 columns: %s", line)
		}
	}
}
