package ui

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// focus is where the focus is.
type focus struct {
	Place int    `json:"place"`
	Seen  bool   `json:"seen"`
	Text  string `json:"text"`
}

// keyboard goes through the page with the tabulator key: it reaches all that can be used, in the
// order of the page, and the focus is seen.
func (b *browser) keyboard(name string) {
	b.Helper()
	b.js(checks)
	b.js(`document.activeElement.blur(), getSelection().removeAllRanges(), scrollTo(0, 0)`)
	places := value[int](b, `purserPlaces().length`)
	reached := map[int]bool{}
	last, back := -1, 0
	for range 2*places + 10 { // the browser has places of its own, and makes some of what can be scrolled
		if len(reached) == places {
			break
		}
		b.press(kb.Tab)
		at := value[focus](b, `purserFocus()`)
		if at.Place < 0 {
			continue
		}
		if !at.Seen {
			b.Errorf("%s: the focus is not seen on %s", name, at.Text)
		}
		if at.Place < last {
			back++
		}
		reached[at.Place], last = true, at.Place
	}
	if len(reached) < places || back > 1 { // from the last to the first once
		b.Errorf("%s: the keyboard reaches %d of %d places, and went back %d times", name, len(reached), places, back)
	}
}

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

// output runs purser until it ends, and returns what it printed.
func output(t *testing.T, bin string, args ...string) string {
	t.Helper()
	var problems strings.Builder
	command := exec.CommandContext(t.Context(), filepath.Join(bin, "purser"), args...)
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", args, err, problems.String())
	}
	return string(out)
}

// awaitFile waits until a file has a text in it.
func awaitFile(t *testing.T, path, text string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), text) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(fmt.Errorf("%s has no %s: %w", path, text, err))
		case <-tick.C:
		}
	}
}
