package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purser-csi/purser/test/compat/invariant"
	"github.com/purser-csi/purser/test/compat/play"
	"github.com/purser-csi/purser/test/compat/random"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// built returns the folder of the programs and that of the data. It skips the test if there are no
// programs.
func built(t *testing.T) folders {
	t.Helper()
	bin, err := stage.Bin()
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "compat-") // the path of t.TempDir is long, and removed while a program still writes its log
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the logs are in", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return folders{bin: bin, dir: dir}
}

func TestScenariosAreSound(t *testing.T) {
	all, err := options{}.load()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 120 {
		t.Errorf("there are %d scenarios", len(all))
	}
	for _, s := range all {
		if !strings.Contains(s.Notes, "Expected") {
			t.Errorf("%s: the comment does not say what is expected", s.Name)
		}
	}
	if _, err := known(); err != nil {
		t.Error(err)
	}
}

// some is a part of each family, without the lane of those that have to wait for one another. `make
// compat` plays all.
const some = `^(claim-(lost|misbound|named|reserved)|matching-(s|r)|volume-claim|repair-|protection-claim|ephemeral-c|expand-e|provision-(e|w)|delayed-(n|w))`

func TestSomeScenarios(t *testing.T) {
	h := built(t)
	chosen, err := options{only: some}.load()
	if err != nil {
		t.Fatal(err)
	}
	list, err := known()
	if err != nil {
		t.Fatal(err)
	}
	comparison := comparison{folders: h, sides: [2]side{stock("stock"), ours(nil)}, parallel: 24, known: list}
	r, err := comparison.both(t.Context(), chosen)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	r.Write(&text)
	t.Log(text.String())
	if r.Failed() {
		t.Error("something is worse, or the stock controllers do not do what a scenario expects of them")
	}
}

// troupe is how many random histories are played at once.
const troupe = 24

// randomTime is how long random histories are played; RANDOM_TIME sets another time.
func randomTime(t *testing.T) time.Duration {
	text := os.Getenv("RANDOM_TIME")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal("RANDOM_TIME:", err)
	}
	return d
}

// TestRandomHistories checks the invariants I1 to I7 and I10 for random actions of users.
func TestRandomHistories(t *testing.T) {
	comparison, err := built(t).opened(t.Context(), "random")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := comparison.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := comparison.launch(ours(nil)); err != nil {
		t.Fatal(err)
	}
	comparison.stage.Calm = 300 * time.Millisecond // ours waits for no resync
	end, played, wrong := time.Now().Add(randomTime(t)), 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if !wrong && time.Now().After(end) {
			return // the machine decides how many there are; what is wrong is played on, until it is as short as it gets
		}
		histories := rapid.SliceOfN(rapid.Custom(random.History), troupe/2, troupe).Draw(rt, "histories")
		found := make([]error, len(histories))
		var all sync.WaitGroup
		for i, history := range histories {
			played++
			name := fmt.Sprintf("random-%d", played)
			all.Go(func() { found[i] = live(comparison.ctx, comparison.stage, name, history) })
		}
		all.Wait()
		if err := errors.Join(found...); err != nil {
			wrong = true
			rt.Fatal(err)
		}
	})
	t.Logf("%d histories", played)
}

// live plays one history and removes it again.
func live(ctx context.Context, s play.Stage, name, history string) error {
	made, err := random.Scenario(name, history)
	if err != nil {
		return err
	}
	p := play.New(s, made)
	if err := p.CreateNamespace(ctx); err != nil {
		return err
	}
	if err := p.Try(ctx); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, history)
	}
	violations := invariant.Check(p.History(), p.Writes)
	if err := p.Scrub(ctx); err != nil {
		return err
	}
	if len(violations) > 0 {
		return fmt.Errorf("%s: %s\n%s", name, strings.Join(violations, "\n"), history)
	}
	return nil
}
