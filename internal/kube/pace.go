package kube

import "time"

// pace is how fast one writer of events goes. What other processes write is seen by no [Traffic] of
// this one, but by how long the API server takes: an answer that comes late says that another client
// else's writes wait as well, and those matter more.
type pace struct {
	usual time.Duration // for an answer of an idle API server; 0 before the first
	due   time.Duration // the rest before the next event
}

const (
	// slow is how many times as long as usual an answer takes from an API server that is busy.
	slow = 4
	// restShare is how many times as long as the answer took the writer then rests, and mostRest
	// how long at most.
	restShare = 8
	mostRest  = 500 * time.Millisecond
	// usualGrowth is the part by which the usual time grows with each answer that took longer. An
	// API server that has become slow for good is not busy, after some hundred events.
	usualGrowth = 64
)

// answered notes how long it took until an event was written. What fails at once says nothing of
// the API server's work.
func (p *pace) answered(took time.Duration) {
	if p.usual == 0 {
		p.usual = took
	}
	p.usual = min(took, p.usual+p.usual/usualGrowth)
	p.due = 0
	if took > slow*p.usual {
		p.due = min(restShare*took, mostRest)
	}
}

// rest returns when what is due is over, at the given time, or when stop is closed.
func (p *pace) rest(until time.Time, stop <-chan struct{}) {
	due := min(p.due, time.Until(until))
	if p.due = 0; due <= 0 {
		return
	}
	select {
	case <-stop:
	case <-time.After(due):
	}
}
