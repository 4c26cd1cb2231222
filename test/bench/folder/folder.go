package folder

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// Stay says whether the folder of a run that went well stays.
type Stay int

const (
	// OnFailure removes the folder unless the run failed for another reason than an interrupt.
	OnFailure Stay = iota
	// Always keeps the folder.
	Always
)

// Run does work with the folder of the built programs and a new folder of its own.
func Run(ctx context.Context, stay Stay, work func(ctx context.Context, bin, dir string) error) error {
	bin, err := stage.Bin()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	err = work(ctx, bin, dir)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w\nthe logs are in %s", err, dir)
	}
	if stay == Always {
		return err
	}
	return errors.Join(err, os.RemoveAll(dir))
}
