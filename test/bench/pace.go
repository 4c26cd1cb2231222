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

func paceOf(log auditLog, begin, end audit.Mark) (both pace, err error) {
	asks := audit.Request{User: userBinder, Verb: "update", Resource: "persistentvolumeclaims"}
	if both.asked, err = log.Firsts(begin, end, asks); err != nil {
		return both, err
	}
	writes := audit.Request{User: userProvisioner, Verb: "create", Resource: "persistentvolumes"}
	both.written, err = log.Firsts(begin, end, writes)
	return both, err
}

// lag is from the last ask to the last answer.
func (p pace) lag() time.Duration {
	if len(p.asked) == 0 || len(p.written) == 0 {
		return 0
	}
	return p.written[len(p.written)-1].Sub(p.asked[len(p.asked)-1])
}

// ratio of the rates: with 1, volumes are written as fast as anybody asks for them.
func (p pace) ratio() float64 {
	return perSecond(len(p.written), p.written.Span()) / perSecond(len(p.asked), p.asked.Span())
}

func (p pace) String() string {
	return fmt.Sprintf("(%.1f/s of %.1f/s; the last PV %d ms after the last claim was asked for)",
		perSecond(len(p.written), p.written.Span()), perSecond(len(p.asked), p.asked.Span()), p.lag().Milliseconds())
}

func perSecond(n int, in time.Duration) float64 { return float64(n) / in.Seconds() }
