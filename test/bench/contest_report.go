package main

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/e2e/audit"
)

// The goals of our controllers.
const (
	floorGoal = 0.80 // of the floor's rate
	stockGoal = 1.8  // times the stock controllers' rate
	tailGoal  = 1.0 / 3
	idleGoal  = 0.002 // of a core
)

// report is for people: counts first, in 80 columns.
func (c *contest) report() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("%d claims at once in each trial. %d cores, which the API server and the load use too.\n", c.claims, runtime.NumCPU())
	line("%-40s%13s%13s%13s", "Requests of the controllers per claim", "writes", "reads", "conflicts")
	for _, r := range c.rows {
		if r.contender == nameFloor {
			continue
		}
		var t tallied
		t.add(r.api)
		line("  %-38s%13.2f%13.2f%13d", r.trial+", "+r.contender, float64(t.writes)/float64(r.claims), float64(t.reads)/float64(r.claims),
			r.api.Where(audit.Request.IsWrite).Answered(http.StatusConflict))
		for _, kind := range kinds([2]audit.Tally{r.api, {}}) {
			line("    %-36s%13.2f", kind.Verb+" "+kind.Resource, float64(r.api[kind].All())/float64(r.claims))
		}
	}
	line("\n%-26s%9s%9s%9s%9s%9s%9s", "Pace", "per s", "p50 ms", "p99 ms", "CPU s", "MB", "rate")
	for _, r := range c.rows {
		line("%-26s%9.1f%9d%9d%9.2f%9d%9s", r.trial+", "+r.contender, r.rate(), r.quantile(50).Milliseconds(), r.quantile(99).Milliseconds(),
			r.cpu.Seconds(), r.memory.now>>20, c.compared(r))
	}
	line("The last column is our rate as a part of the floor's, and as a multiple of stock's.")
	line("Goals: at least %.0f %% of the floor, %.1f times stock, and a third of its p99.\n", floorGoal*100, stockGoal)
	for _, r := range c.rows {
		if stock := c.find(r.trial, nameStock); r.contender == nameOurs && stock != nil {
			line("%-34s p99 %.2f of stock's (goal at most %.2f)", r.trial, r.quantile(99).Seconds()/stock.quantile(99).Seconds(), tailGoal)
		}
	}
	if len(c.idle) > 0 {
		line("\n%-40s%18s%18s", "Idle for "+idleTime.String(), "of one core", "resident MB")
	}
	for _, r := range c.idle {
		line("  %-38s%17.2f%%%18d", r.contender, r.share*100, r.memory.now>>20)
	}
	if len(c.idle) > 0 {
		line("(goal of ours with %d pairs: under %.1f %% of a core)", c.pairs, idleGoal*100)
	}
	return out.String()
}

func (r *trialResult) rate() float64 { return perSecond(r.claims, r.took) }

func (r *trialResult) quantile(percent int) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.times))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func (c *contest) find(trial, contender string) *trialResult {
	for i := range c.rows {
		if c.rows[i].trial == trial && c.rows[i].contender == contender {
			return &c.rows[i]
		}
	}
	return nil
}

func (c *contest) compared(r trialResult) string {
	floor, stock := c.find(r.trial, nameFloor), c.find(r.trial, nameStock)
	if r.contender != nameOurs || floor == nil || stock == nil {
		return ""
	}
	return fmt.Sprintf("%.2f %.1fx", r.rate()/floor.rate(), r.rate()/stock.rate())
}
