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
func (p pace) ratio() float64 { return rateOf(p.written) / rateOf(p.asked) }

// rateOf leaves out the first tenth and the last one: that a volume is written a moment after it was asked for makes the beginning of the
// one look slow and the end of the other look fast, whatever the rates are.
func rateOf(all audit.Moments) float64 {
	middle := all[len(all)/10 : len(all)-len(all)/10]
	return perSecond(len(middle), middle.Span())
}

func (p pace) String() string {
	return fmt.Sprintf("(%.1f/s of %.1f/s; the last PV %d ms after the last claim was asked for)",
		rateOf(p.written), rateOf(p.asked), p.lag().Milliseconds())
}

func perSecond(n int, in time.Duration) float64 { return float64(n) / in.Seconds() }
