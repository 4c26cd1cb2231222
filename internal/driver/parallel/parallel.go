package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Do takes all steps at once and ends when the last of them has. The error is that of the first in
// their order which failed. The others are neither stopped nor undone, since the caller could not
// know how far a stopped step got.
func Do(steps ...func() error) error {
	failures := make([]error, len(steps))
	panics := make([]any, len(steps))
	var all sync.WaitGroup
	for i, step := range steps {
		all.Go(func() { panics[i], failures[i] = run(step) })
	}
	all.Wait()
	for i := range steps {
		if panics[i] != nil {
			panic(panics[i])
		}
		if failures[i] != nil {
			return failures[i]
		}
	}
	return nil
}

// run returns a panic to the caller of Do, which may recover it. In this goroutine it would end the
// process.
func run(step func() error) (panicked any, err error) {
	defer func() {
		if value := recover(); value != nil {
			panicked = fmt.Sprintf("%v, at\n%s", value, debug.Stack())
		}
	}()
	return nil, step()
}

// Each takes a step for every item, side by side.
func Each[T any](items []T, step func(int, T) error) error {
	steps := make([]func() error, 0, len(items))
	for i, item := range items {
		steps = append(steps, func() error { return step(i, item) })
	}
	return Do(steps...)
}
