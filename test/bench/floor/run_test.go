package floor

import (
	"testing"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// A small run on a real control plane measures each row. The bare client makes exactly the writes of
// the floor, so its counts prove the numbers of the table.
func TestRun(t *testing.T) {
	if _, err := stage.Bin(); err != nil {
		t.Skip(err)
	}
	b := newBench()
	code := runner.Main([]string{
		"floor", "-volumes=4", "-idle=1", "-nodes=2", "-rounds=1", "-pairs=0", "-volatile", "-timeout=5m",
		"-only=bare,bare-one,one",
	}, b.workload())
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	got := b.table()
	for _, contender := range []string{bareSeparate, bareTogether, ourTogether} {
		for _, o := range operations() {
			rounds := b.rounds(o.name, contender)
			if len(rounds) != 1 || rounds[0].rate <= 0 || rounds[0].Writes == 0 {
				t.Errorf("%s of %s: %+v", o.name, contender, rounds)
			}
		}
	}
	for _, l := range got.Lines {
		isBatched := l.Row == opAttach || l.Row == opDetach
		if (l.Contender == bareSeparate || l.Contender == bareTogether) &&
			l.Writes != l.Floor && !isBatched {
			t.Errorf("%s of %s: %.2f writes, and the floor is %.2f", l.Row, l.Contender, l.Writes, l.Floor)
		}
		if isBatched && l.Writes < l.Floor {
			t.Errorf("%s of %s: %.2f writes are fewer than the floor of %.2f", l.Row, l.Contender, l.Writes, l.Floor)
		}
	}
	if got.WriteMS <= 0 {
		t.Error("no write of the bare client was timed")
	}
}
