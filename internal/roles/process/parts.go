package process

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopTimeout is how long a part may take to end after another one has failed: long enough to
// release its lease. It is short, since the failed part may have lost its lease, and its requests
// in flight go on until the process ends.
const stopTimeout = 2 * time.Second

// RunParts runs the parts until one of them ends, and then ends the others.
func RunParts(ctx context.Context, parts map[string]func(context.Context) error) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(parts))
	for name, run := range parts {
		go func() { ended <- orEnded(running, name, run(running)) }()
	}
	err := <-ended
	asked := ctx.Err() != nil
	cancel()
	var late <-chan time.Time
	if !asked {
		late = time.After(stopTimeout)
	}
	for range len(parts) - 1 {
		select {
		case other := <-ended:
			err = errors.Join(err, other)
		case <-late:
			return err
		}
	}
	return err
}

// orEnded returns nil if the context asked the role to end, and otherwise an error that says which
// role has ended and why.
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
