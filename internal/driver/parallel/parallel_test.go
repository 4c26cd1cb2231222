package parallel_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/purser-csi/purser/internal/driver/parallel"
)

func TestStepsAreTakenAtOnce(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	step := func() error {
		both.Done()
		both.Wait() // hangs unless the other one runs
		return nil
	}
	if err := parallel.Do(step, step); err != nil {
		t.Error(err)
	}
}

// The error of the first in order counts, not that of the first in time.
func TestTheFirstErrorInOrderCounts(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	later := make(chan struct{})
	err := parallel.Do(
		func() error { return nil },
		func() error { <-later; return first },
		func() error { close(later); return second },
	)
	if !errors.Is(err, first) {
		t.Errorf("Do: %v, want %v", err, first)
	}
}

func TestNoStepIsLeftOut(t *testing.T) {
	done := make([]bool, 3)
	err := parallel.Each(done, func(i int, _ bool) error {
		done[i] = true
		return errors.New("failed")
	})
	if err == nil || !done[0] || !done[1] || !done[2] {
		t.Errorf("Each: %v, %v", done, err)
	}
	if err := parallel.Do(); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
}

func TestAPanicIsTheCallers(t *testing.T) {
	defer func() {
		if text, is := recover().(string); !is || !strings.HasPrefix(text, "a bug, at") {
			t.Errorf("panic: %q", text)
		}
	}()
	_ = parallel.Do(func() error { panic("a bug") })
	t.Error("the panic is lost")
}
