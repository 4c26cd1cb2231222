package faketool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	roundsFile = "rounds.json"
	endsFile   = "ends"
)

const (
	// alone is the time that a tool waits for the other calls of its round. lingering is the time
	// that it stays, to detect a call that must not run in parallel.
	alone     = 10 * time.Second
	lingering = 20 * time.Millisecond
)

// Meanwhile begins a round that need not wait for the end of the previous one: each of its calls
// follows a call of that.
const Meanwhile = "meanwhile"

// round is what a tool has to know of a round.
type round struct {
	Size      int
	Meanwhile bool
}

// Rounds lists the expected calls, each by its first words. The calls of one round run in parallel,
// in any order, and the rounds one after the other. A tool fails if the other calls of its round do
// not begin while it runs, or if it begins before the previous round has ended.
func (f *Tools) Rounds(rounds ...[]string) {
	f.t.Helper()
	f.rounds = nil
	var sizes []round
	for _, words := range rounds {
		loose := len(words) > 0 && words[0] == Meanwhile
		if loose {
			words = words[1:]
		}
		f.rounds, sizes = append(f.rounds, words), append(sizes, round{Size: len(words), Meanwhile: loose})
	}
	content, err := json.Marshal(sizes)
	if err == nil {
		err = os.WriteFile(filepath.Join(f.dir, roundsFile), content, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// CheckRounds compares what has run with that.
func (f *Tools) CheckRounds() {
	f.t.Helper()
	calls := f.Calls()
	for i, want := range f.rounds {
		some := calls[:min(len(want), len(calls))]
		calls = calls[len(some):]
		left := slices.Clone(want)
		for _, call := range some {
			at := slices.IndexFunc(left, func(begins string) bool { return strings.HasPrefix(call.Words()+" ", begins+" ") })
			if at < 0 {
				f.t.Errorf("round %d ran %q, want %q", i+1, call.Words(), left)
				continue
			}
			left = slices.Delete(left, at, at+1)
		}
		if len(some) < len(want) {
			f.t.Errorf("round %d did not run %q", i+1, left)
		}
	}
	for _, call := range calls {
		f.t.Errorf("no step expects %q", call.Words())
	}
}

// keepRound ends when a tool that has a round may answer.
func keepRound(dir string, pid int) error {
	content, err := os.ReadFile(filepath.Join(dir, roundsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var rounds []round
	if err == nil {
		err = json.Unmarshal(content, &rounds)
	}
	if err != nil {
		return err
	}
	calls, err := readCalls(dir)
	if err != nil {
		return err
	}
	mine := slices.IndexFunc(calls, func(c Call) bool { return c.Pid == pid })
	before := 0
	for _, r := range rounds {
		if mine < before+r.Size {
			return errors.Join(r.wait(dir, before), noteEnd(dir))
		}
		before += r.Size
	}
	return noteEnd(dir)
}

// wait waits for the rest of a round, before which there were so many runs.
func (r round) wait(dir string, before int) error {
	ends, err := os.ReadFile(filepath.Join(dir, endsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(ends) < before && !r.Meanwhile {
		return fmt.Errorf("%d runs are to end first, and %d have", before, len(ends))
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		calls, err := readCalls(dir)
		if err != nil {
			return err
		}
		if len(calls) >= before+r.Size {
			break
		}
		if time.Since(began) > alone {
			return fmt.Errorf("%d are to run before this one ends, and %d have", before+r.Size, len(calls))
		}
	}
	time.Sleep(lingering)
	return nil
}

func noteEnd(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, endsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(".")
	return errors.Join(err, file.Close())
}
