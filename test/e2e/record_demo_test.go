package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/test/e2e/life"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// The volumes of the demo, with a snapshot and a restored one where the machine can take it, are recorded:
// the time of their lives has a party or a reason.
func TestRecordOfDemo(t *testing.T) {
	t.Parallel()
	s := start(t, stage.Config{DataDir: dataDir(t)})
	path := filepath.Join(t.TempDir(), "demo.jsonl.gz")
	recorder := recordInto(t, s, path)
	live(t, (&life.Life{Stage: s, Examples: examples(t)}).Steps())
	copies := &life.Copies{Stage: s, Examples: examples(t)}
	possible, err := copies.Possible(t.Context())
	must(t, err)
	if possible {
		live(t, copies.Steps())
	}
	recorder()
	text, err := os.ReadFile(path)
	must(t, err)
	r, err := record.Load(map[string][]byte{path: text})
	must(t, err)
	attributedTimes(t, r, "default", len(r.History().Claims("default")), 1)
}
