package floor

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/audit"
)

var update = flag.Bool("update", false, "write the golden files")

// measured is a run of two rows: provision in two rounds, attach in one.
func measured() *bench {
	b := &bench{kept: []kept{{Contender: ourTogether, Empty: 40 << 20, Full: 50 << 20, PerPair: 3000, HeapPair: 2048, Heaps: map[string]float64{accountPlane: 2048}}}}
	b.sizes.volumes, b.sizes.idle, b.sizes.nodes, b.sizes.workers = 100, 2, 10, 32
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	round := func(n int, rate float64, idle int) figure {
		return figure{row: opProvision, round: n, rate: rate, idle: []time.Duration{ms(idle), ms(idle + 1)}, programs: 1, server: 3}
	}
	add := func(contender string, f figure) { f.contender = contender; b.figures = append(b.figures, f) }
	for n, rate := range []float64{100, 200} { // the machine is twice as fast in the second round
		f := round(n+1, rate, 10)
		f.writes = []time.Duration{ms(2), ms(2), ms(3)}
		add(bareSeparate, f)
		f = round(n+1, rate/2, 30)
		f.requests = requests{Writes: 5.5, Events: 0.25, Reads: 1, WatchBytes: 2048}
		add(ourSeparate, f)
		add(bareTogether, round(n+1, rate, 10))
		f = round(n+1, rate*0.95, 11)
		f.requests = requests{Writes: 4, Journal: 0.3}
		add(ourTogether, f)
	}
	add(stock, round(1, 50, 90))
	b.figures = append(b.figures,
		figure{row: opAttach, contender: ourTogether, round: 1, rate: 80, idle: []time.Duration{ms(9)}, requests: requests{Writes: 3.15}})
	return b
}

// The golden files are what `make floor` prints. A mark is at each number that misses its aim.
func TestReport(t *testing.T) {
	for _, format := range []string{asText, asMarkdown} {
		b := measured()
		b.output = format
		got, golden := b.report(), filepath.Join("testdata", "report."+format)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-update writes it):\n%s", golden, diff)
		}
	}
}

// What the result says as JSON can be read back.
func TestReportAsJSON(t *testing.T) {
	b := measured()
	b.output = asJSON
	var read table
	if err := json.Unmarshal([]byte(b.report()), &read); err != nil {
		t.Fatal(err)
	}
	if got, want := read.text(), b.table().text(); got != want {
		t.Errorf("read back:\n%s\nwant:\n%s", got, want)
	}
}

// The volumes of a node share its write: 10 of them on each node here.
func TestFloorOfBatchedWrites(t *testing.T) {
	for _, l := range measured().table().Lines {
		if l.Row == opAttach && (l.Floor != 3.1 || l.DepthMS != 6) {
			t.Errorf("floor %.2f, want 3.10; depth x w %.1f ms, want 6.0", l.Floor, l.DepthMS)
		}
	}
}

func TestCount(t *testing.T) {
	var r requests
	r.count(audit.Tally{
		{User: "p", Verb: "create", Resource: "persistentvolumes"}: {201: 4, 409: 1},
		{User: "p", Verb: "create", Resource: "events"}:            {201: 2},
		{User: "p", Verb: "update", Resource: "leases"}:            {200: 1},
		{User: "p", Verb: "get", Resource: "persistentvolumes"}:    {404: 6},
		{User: "p", Verb: "watch", Resource: "persistentvolumes"}:  {200: 9},
		{User: "p", Verb: "get", Resource: "/api/v1"}:              {200: 9},
	}, 1)
	got := fmt.Sprint(r.Writes, r.Reads, r.Events, r.Journal, r.Refused, len(r.Kinds))
	if want := "5 6 2 1 1 4"; got != want {
		t.Errorf("writes, reads, events, journal, refused, kinds: %s, want %s", got, want)
	}
}

// Of three watches of claims two are the contender's, and of the watch of nodes none.
func TestWatches(t *testing.T) {
	page := func(claims, nodes, open int) string {
		return fmt.Sprintf(`# HELP apiserver_watch_events_sizes Watch event size distribution in bytes
apiserver_watch_events_sizes_bucket{group="",resource="persistentvolumeclaims",version="v1",le="1024"} 7
apiserver_watch_events_sizes_sum{group="",resource="persistentvolumeclaims",version="v1"} %d
apiserver_watch_events_sizes_sum{group="",resource="nodes",version="v1"} %d
apiserver_longrunning_requests{component="apiserver",group="",resource="persistentvolumeclaims",scope="cluster",subresource="",verb="WATCH",version="v1"} %d
apiserver_longrunning_requests{component="apiserver",group="",resource="nodes",scope="cluster",subresource="",verb="WATCH",version="v1"} 1
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="resource",subresource="exec",verb="CONNECT",version="v1"} 1
`, claims, nodes, open)
	}
	var all []watches
	for _, text := range []string{page(0, 0, 1), page(1000, 50, 3), page(4000, 70, 3)} {
		one, err := parseWatches([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if got := all[2].since(all[1], all[0]); got != 2000 {
		t.Errorf("%.0f bytes, want 2000", got)
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct{ rows, output, want string }{
		{"", "text", ""},
		{"attach,delete snapshot", "json", ""},
		{"mount", "text", `-rows=mount: there is no row "mount", but provision, delete, expand`},
		{"", "yaml", "-o=yaml: must be text, markdown or json"},
	} {
		b := measured()
		b.rows, b.output = tc.rows, tc.output
		got := ""
		if err := b.check(runner.Options{}); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tc.want) || got != "" && tc.want == "" {
			t.Errorf("-rows=%s -o=%s: %q, want %q", tc.rows, tc.output, got, tc.want)
		}
	}
}

// Rows of stock need the sidecars of upstream; all others need nothing.
func TestLacks(t *testing.T) {
	one := runner.Contender{Short: stock, Programs: []runner.Program{{Name: stockProvisioner}, {Name: stockSnapshotter}}}
	for row, want := range map[string]string{
		opProvision: "", opAttach: stockAttacher, opExpand: stockResizer, opRestore: stockController,
	} {
		if got := lacks(one, find(row)); got != want {
			t.Errorf("%s lacks %q, want %q", row, got, want)
		}
	}
	if got := lacks(runner.Contender{Short: ourSeparate}, find(opAttach)); got != "" {
		t.Errorf("ours lacks %q", got)
	}
}
