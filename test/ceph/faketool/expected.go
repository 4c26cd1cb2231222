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
	groupsFile = "groups.json"
	endsFile   = "ends"
)

const (
	// alone is the time that a tool waits for the other calls of its group. lingering is the time
	// that it stays, to detect a call that must not run in parallel.
	alone     = 10 * time.Second
	lingering = 20 * time.Millisecond
)

// Meanwhile begins a group that need not wait for the end of the previous one: each of its calls
// follows a call of that.
const Meanwhile = "meanwhile"

// group is what a tool has to know of a group.
type group struct {
	Size      int
	Meanwhile bool
}

// Expect lists the expected calls, each by its first words. The calls of one group run in parallel,
// in any order, and the groups one after the other. A tool fails if the other calls of its group do
// not begin while it runs, or if it begins before the previous group has ended.
func (f *Tools) Expect(groups ...[]string) {
	f.t.Helper()
	f.groups = nil
	var sizes []group
	for _, words := range groups {
		loose := len(words) > 0 && words[0] == Meanwhile
		if loose {
			words = words[1:]
		}
		f.groups, sizes = append(f.groups, words), append(sizes, group{Size: len(words), Meanwhile: loose})
	}
	content, err := json.Marshal(sizes)
	if err == nil {
		err = os.WriteFile(filepath.Join(f.dir, groupsFile), content, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// CheckExpected compares what has run with that.
func (f *Tools) CheckExpected() {
	f.t.Helper()
	calls := f.Calls()
	for i, want := range f.groups {
		some := calls[:min(len(want), len(calls))]
		calls = calls[len(some):]
		left := slices.Clone(want)
		for _, call := range some {
			at := slices.IndexFunc(left, func(begins string) bool { return strings.HasPrefix(call.Words()+" ", begins+" ") })
			if at < 0 {
				f.t.Errorf("group %d ran %q, want %q", i+1, call.Words(), left)
				continue
			}
			left = slices.Delete(left, at, at+1)
		}
		if len(some) < len(want) {
			f.t.Errorf("group %d did not run %q", i+1, left)
		}
	}
	for _, call := range calls {
		f.t.Errorf("no step expects %q", call.Words())
	}
}

// awaitGroup ends when a tool that has a group may answer.
func awaitGroup(dir string, pid int) error {
	content, err := os.ReadFile(filepath.Join(dir, groupsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var groups []group
	if err == nil {
		err = json.Unmarshal(content, &groups)
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
	for _, r := range groups {
		if mine < before+r.Size {
			return errors.Join(r.wait(dir, before), noteEnd(dir))
		}
		before += r.Size
	}
	return noteEnd(dir)
}

// wait waits for the rest of a group, before which there were so many runs.
func (r group) wait(dir string, before int) error {
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
