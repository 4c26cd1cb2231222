package main

import (
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
)

func TestQuantile(t *testing.T) {
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
		if got := (&result{bound: tc.times}).quantile(tc.percent); got != tc.want {
			t.Errorf("%d%% of %v: %d, want %d", tc.percent, tc.times, got, tc.want)
		}
	}
}

func TestFault(t *testing.T) {
	whole := result{claims: 1, bound: []time.Duration{1}}
	if err := whole.fault(); err != nil {
		t.Error(err)
	}
	lost, left := whole, whole
	lost.bound, left.left = nil, 3
	for want, r := range map[string]result{"0 of 1 claims": lost, "3 volumes are left": left} {
		if err := r.fault(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fault = %v, want %q", err, want)
		}
	}
}

func TestReport(t *testing.T) {
	ours := audit.Request{User: who[0].user, Verb: "create", Resource: "persistentvolumes"}
	r := result{
		claims: 4, cores: 2, bound: make([]time.Duration, 4), boundIn: 2 * time.Second, deletedIn: time.Second,
		create: phase{
			api: audit.Tally{
				ours: {201: 4, 409: 2},
				{User: ours.User, Verb: "create", Resource: "events"}:                             {201: 8},
				{User: ours.User, Verb: "watch", Resource: ours.Resource}:                         {200: 40},
				{User: "purser-admin", Verb: "create", Resource: "persistentvolumeclaims"}:        {201: 4},
				{User: who[1].user, Verb: "update", Resource: "persistentvolumeclaims/status"}:    {200: 4},
				{User: who[1].user, Verb: "get", Resource: "/api/v1?a-very-long-discovery-query"}: {200: 9},
			},
			calls: scrape.Calls{"CreateVolume": 5},
		},
		pace: pace{
			asked:   audit.Moments{time.UnixMilli(0), time.UnixMilli(1000)},
			written: audit.Moments{time.UnixMilli(10), time.UnixMilli(2010)},
		},
		floor: floor{claims: 1, created: time.Second, deletedIn: time.Second},
	}
	report := r.report()
	words := strings.Join(strings.Fields(report), " ")
	for _, want := range []string{
		"create persistentvolumes 1.50 -", "create events 2.00 -", "update persistentvolumeclaims/status 1.00 -",
		"writes 2.50 -", "reads - -", "in all 2 0 create persistentvolumes: 409 2 0", "CreateVolume 5 0",
		"claims Bound per second 2.0 1.0 2.00", "volumes deleted per second 4.0 1.0 4.00",
		"in rate: 0.50 (1.0/s of 2.0/s", "1010 ms after the last",
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
