package roles

import (
	"context"
	"errors"
	"fmt"
)

// part is a role that runs inside of `up`. It lives until it is stopped, not until the context of its start ends, so that the
// order of the end is ours to choose.
type part struct {
	name   string
	cancel context.CancelFunc
	ended  chan struct{}
	failed error // valid once ended is closed
}

func startPart(ctx context.Context, name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.failed = orEnded(ctx, name, run(ctx))
	}()
	return p
}

// orEnded is nil for a role that has ended because it was asked to, and otherwise says which one has ended and why.
func orEnded(asked context.Context, name string, err error) error {
	switch {
	case asked.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		return nil
	case err == nil:
		return fmt.Errorf("%s ended by itself", name)
	default:
		return fmt.Errorf("%s: %w", name, err)
	}
}

// err says why the part ended by itself; nil while it runs and after an orderly end.
func (p *part) err() error {
	select {
	case <-p.ended:
		return p.failed
	default:
		return nil
	}
}

// stop ends the part and waits for it, at most until ctx ends. Why it had ended before is told by err alone.
func (p *part) stop(ctx context.Context) error {
	p.cancel()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end", p.name)
	}
}
