package process

import (
	"context"
	"fmt"
)

// Part is a role that runs inside of `up`. It lives until it is stopped, not until the context of
// its start ends, so that the order of the end is ours to choose.
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

// Stop ends the part and waits for it, at most until ctx ends. Why it had ended before is told by
// err alone.
func (p *Part) Stop(ctx context.Context) error {
	p.cancel()
	select {
	case <-p.Ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end", p.name)
	}
}
