package folder

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/exitcode"
)

// Stay says whether the folder of a run that went well stays.
type Stay int

const (
	// OnFailure removes the folder unless the run failed for another reason than an interrupt.
	OnFailure Stay = iota
	// Always keeps the folder.
	Always
)

// Main is the main function of a benchmark behind its flags; it returns the exit code.
func Main(name string, keep bool, work func(ctx context.Context, bin, dir string) error) int {
	ctrllog.SetLogger(logr.Discard()) // what the watches of the load have to say is of no interest
	stay := OnFailure
	if keep {
		stay = Always
	}
	return exitcode.Run(name, 0, func(ctx context.Context) error { return Run(ctx, stay, work) })
}

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
