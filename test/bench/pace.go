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

// lag is from the claim that was asked for as the part-th of all, to the volume that was written as
// the part-th: what grows from one part to the next is work that heaps up.
func (p pace) lag(part float64) time.Duration {
	if len(p.asked) == 0 || len(p.written) == 0 {
		return 0
	}
	at := func(m audit.Moments) time.Time { return m[int(part*float64(len(m)-1))] }
	return at(p.written).Sub(at(p.asked))
}

// ratio of the rates: with 1, volumes are written as fast as they are asked for for them. While
// they are asked for it is hardly more: it falls below by what the last claim waits longer than the
// first. Where all were asked for before, it is how many times as fast one is as the other.
func (p pace) ratio() float64 {
	return perSecond(len(p.written), p.written.Span()) / perSecond(len(p.asked), p.asked.Span())
}

func (p pace) String() string {
	return fmt.Sprintf("(%.1f/s of %.1f/s; behind by %d, in the middle %d, at last %d ms)",
		perSecond(len(p.written), p.written.Span()), perSecond(len(p.asked), p.asked.Span()),
		p.lag(0).Milliseconds(), p.lag(0.5).Milliseconds(), p.lag(1).Milliseconds())
}

func perSecond(n int, in time.Duration) float64 { return float64(n) / in.Seconds() }
