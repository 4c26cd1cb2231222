package attach

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/test/compat/explained"
)

// atOnce is how many scenarios are played at the same time.
const atOnce = 12

// sides are the names of the two sides.
var sides = [2]string{"stock", "ours"}

// reducedTo is the n-th scenario of a run without COMPAT=whole.
const reducedTo = 12

// TestAttachCompat plays each scenario on both sides. A difference must be in the list of known
// differences, with its reason.
func TestAttachCompat(t *testing.T) {
	ctrllog.SetLogger(logr.Discard())
	var wanted []scenario
	for i, s := range scenarios {
		if os.Getenv("COMPAT") == "whole" || i%reducedTo == 0 {
			wanted = append(wanted, s)
		}
	}
	outcomes := map[string][2]result{}
	for i, programs := range [][]command{stock, ours} {
		for _, r := range playAll(t, startSide(t, sides[i], programs), wanted) {
			both := outcomes[r.of.text]
			both[i] = r
			outcomes[r.of.text] = both
		}
	}
	same, known, worse := 0, 0, 0
	for _, s := range wanted {
		both := outcomes[s.text]
		lines := difference(both[0], both[1])
		switch {
		case len(lines) == 0:
			same++
		case s.differs != "":
			known++
			t.Logf("known: %s: %s\n  %s", s.text, s.differs, strings.Join(lines, "\n  "))
		default:
			worse++
			t.Errorf("%s\n  %s", s.text, strings.Join(lines, "\n  "))
		}
	}
	fmt.Printf("attach: %d scenarios: %d the same, %d different on purpose, %d worse\n", len(wanted), same, known, worse)
}

// result is the result of a scenario on one side.
type result struct {
	of    scenario
	lines []string
	err   error
}

// playAll plays the scenarios. The stock controllers race with themselves: with luck, one detaches a
// volume that a node is about to report in use. So a scenario that they do not get through, and that
// is in no list of differences, is played a second time. Ours have one attempt.
func playAll(t *testing.T, s *side, wanted []scenario) (all []result) {
	t.Helper()
	all = make([]result, len(wanted))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, one := range wanted {
		slots <- struct{}{}
		wg.Go(func() {
			all[i] = s.play(t.Context(), one, fmt.Sprintf("s%02d-", i))
			if all[i].err != nil && s.name == sides[0] && one.differs == "" {
				t.Logf("played again, since the stock controllers did not get through: %s: %v", one.text, all[i].err)
				all[i] = s.play(t.Context(), one, fmt.Sprintf("again%02d-", i))
			}
			<-slots
		})
	}
	wg.Wait()
	problems, err := explained.Live(t.Context(), s.server, s.api)
	if err != nil {
		t.Error(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	return all
}

// play plays one scenario, with a prefix of its own for the names of objects.
func (s *side) play(ctx context.Context, one scenario, prefix string) result {
	p := &play{side: s, ctx: ctx, prefix: prefix}
	r := result{of: one, err: p.run(one.text)}
	lines, err := p.settle(2 * calm)
	if r.lines = lines; r.err == nil {
		r.err = err
	}
	return r
}

// raced is a part of the event that upstream's attacher causes when it attaches before its cache has
// the CSINodes, right after its start. Ours waits for them (AT-H1).
const raced = `: csinode.storage.k8s.io "`

// difference has the lines of the first side alone with a minus, and those of the second with a
// plus. An event that the first side has or has not by timing is left out.
func difference(a, b result) (lines []string) {
	for i, r := range []result{a, b} {
		if r.err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", sides[i], r.err))
		}
	}
	for _, l := range a.lines {
		if !slices.Contains(b.lines, l) && !strings.Contains(l, raced) {
			lines = append(lines, "- "+l)
		}
	}
	for _, l := range b.lines {
		if !slices.Contains(a.lines, l) {
			lines = append(lines, "+ "+l)
		}
	}
	return lines
}
