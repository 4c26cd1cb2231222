package process

import (
	"context"
	"fmt"
)

// Part is a role that runs inside of `up`. It runs until Stop, not until the context of StartPart
// ends, so that `up` can stop its parts in order.
type Part struct {
	name   string
	cancel context.CancelFunc
	Ended  chan struct{}
	failed error // valid once ended is closed
}

// StartPart runs a role in the background.
func StartPart(ctx context.Context, name string, run func(context.Context) error) *Part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Part{name: name, cancel: cancel, Ended: make(chan struct{})}
	go func() {
		defer close(p.Ended)
		p.failed = orEnded(ctx, name, run(ctx))
	}()
	return p
}

// Err says why the part ended by itself; nil while it runs and after an orderly end.
func (p *Part) Err() error {
	select {
	case <-p.Ended:
		return p.failed
	default:
		return nil
	}
}

// Stop ends the part and waits for it, at most until ctx ends. If it had ended before, only Err
// returns the reason.
func (p *Part) Stop(ctx context.Context) error {
	p.cancel()
	select {
	case <-p.Ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end", p.name)
	}
}
