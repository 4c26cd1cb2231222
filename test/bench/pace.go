package main

import (
	"fmt"
	"time"

	"github.com/purser-csi/purser/test/e2e/audit"
)

// pace compares how fast the PV controller asks for volumes with how fast they are given.
type pace struct {
	asked   audit.Moments // each claim's first update by the PV controller, which names the provisioner
	written audit.Moments // each PersistentVolume's creation
}

func paceOf(log *audit.Log, p phase) (both pace, err error) {
	asks := audit.Request{User: binder, Verb: "update", Resource: "persistentvolumeclaims"}
	if both.asked, err = log.Firsts(p.begin, p.end, asks); err != nil {
		return both, err
	}
	writes := audit.Request{User: provisioner, Verb: "create", Resource: "persistentvolumes"}
	both.written, err = log.Firsts(p.begin, p.end, writes)
	return both, err
}

// lag is from the last ask to the last answer.
func (p pace) lag() time.Duration {
	if len(p.asked) == 0 || len(p.written) == 0 {
		return 0
	}
	return p.written[len(p.written)-1].Sub(p.asked[len(p.asked)-1])
}

// report has the ratio that matters: with 1.00, volumes are written as fast as anybody asks for them.
func (p pace) report() string {
	asked, written := perSecond(len(p.asked), p.asked.Span()), perSecond(len(p.written), p.written.Span())
	return fmt.Sprintf("PVs written per claim asked, in rate: %.2f (%.1f/s of %.1f/s; goal 1.00)\n", written/asked, written, asked) +
		fmt.Sprintf("the last PV was written %d ms after the last claim was asked for\n", p.lag().Milliseconds())
}

func perSecond(n int, in time.Duration) float64 { return float64(n) / in.Seconds() }
