package rbd_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/rbd"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/record"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/test/ceph/faketool"
)

func TestMain(m *testing.M) { os.Exit(faketool.Main(m)) }

type step = faketool.Step

var (
	place  = handle.Place{Kind: handle.RBD, Cluster: "ceph", Pool: "p"}
	volume = handle.Volume(place, "vol")
)

// play gives a pool whose programs follow a script.
func play(t *testing.T, script ...step) (rbd.Pool, *faketool.Tools) {
	t.Helper()
	tools := faketool.New(t, script...)
	return rbd.Pool{
		Tools:  command.NewRunner(command.Config{LookPath: tools.LookPath, Environment: tools.Environment()}),
		Access: command.Access{Cluster: "ceph", Conf: "/ceph.conf", User: "csi", Key: command.NewKey("secret")},
		Place:  place,
	}, tools
}

func blueprint() rbd.Blueprint {
	id, _ := volume.ID()
	return rbd.Blueprint{
		Object: volume, Bytes: 1 << 30,
		Request: backend.Request{ID: id, Name: "vol", Mutable: map[string]string{"rbd_qos_iops_limit": "5"}},
	}
}

func wantLines(t *testing.T, tools *faketool.Tools, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, tools.Lines()); diff != "" {
		t.Error(diff)
	}
}

func recordOf(t *testing.T, name string) string {
	t.Helper()
	text, err := record.OfRequest(backend.Request{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var missing = step{Status: 2, Stderr: "(2) No such file or directory\n"}

func (answers *script) add(begins string, s step) *script {
	s.Begins = begins
	*answers = append(*answers, s)
	return answers
}

type script []step

func TestOnlyItsOwnRecordMakesAVolume(t *testing.T) {
	const info = `{"id":"1a","name":"purser.vol","size":7}`
	for name, test := range map[string]struct {
		meta step
		kind fault.Kind
		good bool
	}{
		"none":            {meta: missing, kind: fault.NotFound},
		"of its source":   {meta: step{Stdout: recordOf(t, "another")}, kind: fault.NotFound},
		"scribble":        {meta: step{Stdout: "{"}, kind: fault.Internal},
		"of a later form": {meta: step{Stdout: `{"format":9,"name":"vol"}`}, kind: fault.Internal},
		"its own":         {meta: step{Stdout: recordOf(t, "vol") + "\n"}, good: true},
	} {
		var s script
		s.add("rbd image-meta get", test.meta).add("rbd info", step{Stdout: info})
		pool, _ := play(t, s...)
		got, err := pool.Get(t.Context(), volume)
		if test.good && (err != nil || got.CapacityBytes != 7) || !test.good && !test.kind.Is(err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

const noWatchers = `{"watchers":[]}`

// While a volume has snapshots of other programs, a deleted volume only changes its
// name; otherwise it goes through the trash in one step.
func TestWhatADeleteDoes(t *testing.T) {
	const info = `{"id":"1a","name":"purser.vol","size":7}`
	snap := "s" + strings.Repeat("a", 26)
	clone := "c" + strings.Repeat("a", 26)
	snaps := func(kind, name string) string {
		text, _ := json.Marshal([]map[string]any{{"id": 3, "name": name, "namespace": map[string]string{"type": kind}}})
		return string(text)
	}
	for name, test := range map[string]struct {
		snaps, watchers, ends string
		kind                  fault.Kind
		fails                 bool
	}{
		"without snapshots": {snaps: `[]`, ends: "rbd trash rm p/1a --no-progress"},
		"with a snapshot":   {snaps: snaps("user", snap), ends: "rbd rename p/purser.vol p/purser-deleted.vol.1a"},
		"with one that only clones read": {
			snaps: snaps("trash", "x"), ends: "rbd trash rm p/1a --no-progress",
		},
		"with one of an interrupted clone": {snaps: snaps("user", clone), ends: "rbd trash rm p/1a --no-progress"},
		"in use": {
			snaps: snaps("user", clone), watchers: `{"watchers":[{"address":"10.0.0.7:0/42"}]}`, fails: true, kind: fault.InUse,
		},
	} {
		if test.watchers == "" {
			test.watchers = noWatchers
		}
		var s script
		s.add("rbd info", step{Stdout: info}).add("rbd snap ls", step{Stdout: test.snaps}).
			add("rbd status", step{Stdout: test.watchers}).add("rbd", step{})
		pool, tools := play(t, s...)
		err := pool.Delete(t.Context(), volume)
		if test.fails != (err != nil) || test.fails && (!test.kind.Is(err) || !strings.Contains(err.Error(), "ceph osd blocklist add 10.0.0.7:0/42")) {
			t.Errorf("%s: %v", name, err)
		}
		lines := tools.Lines()
		if last := lines[len(lines)-1]; last != test.ends && !test.fails || test.fails && len(lines) != 3 {
			t.Errorf("%s: %q, want the end %q", name, lines, test.ends)
		}
	}
}

// An image that clones still read waits in the trash, and a large image is removed by the cluster:
// neither is an error.
func TestAVolumeIsGoneOnceItIsInTheTrash(t *testing.T) {
	for status, last := range map[int]string{
		39: "rbd trash rm p/1a --no-progress",
		16: "ceph rbd task add trash remove p/1a",
	} {
		var s script
		s.add("rbd info", step{Stdout: `{"id":"1a"}`}).add("rbd snap ls", step{Stdout: `[]`}).add("rbd status", step{Stdout: noWatchers}).
			add("rbd trash rm", step{Status: status}).add("rbd", step{}).add("ceph", step{})
		pool, tools := play(t, s...)
		if err := pool.Delete(t.Context(), volume); err != nil {
			t.Errorf("status %d: %v", status, err)
		}
		lines := tools.Lines()
		if lines[len(lines)-1] != last {
			t.Errorf("status %d: %q", status, lines)
		}
	}
}

func TestAVolumeThatIsGoneIsDeleted(t *testing.T) {
	var s script
	s.add("rbd trash ls", step{Stdout: `[{"id":"9","name":"foreign"}]`}).add("rbd", missing)
	pool, tools := play(t, s...)
	if err := pool.Delete(t.Context(), volume); err != nil {
		t.Error(err)
	}
	if len(tools.Calls()) != 4 {
		t.Errorf("an image of another program was touched: %q", tools.Lines())
	}
}

// trash has an image of another program, and some of ours of which the first is
// still read.
func trash(ids ...string) script {
	all := []map[string]string{{"id": "0", "name": "foreign"}}
	for _, id := range ids {
		all = append(all, map[string]string{"id": id, "name": "purser.vol" + id})
	}
	text, _ := json.Marshal(all)
	var s script
	s.add("rbd trash ls", step{Stdout: string(text)}).add("rbd info", step{Stdout: `{"id":"1a"}`}).
		add("rbd trash rm p/"+ids[0], step{Status: 39}).add("rbd", step{})
	return s
}

func removed(tools *faketool.Tools) (ids []string) {
	for _, line := range tools.Lines() {
		if rest, is := strings.CutPrefix(line, "rbd trash rm p/"); is {
			ids = append(ids, strings.TrimSuffix(rest, " --no-progress"))
		}
	}
	return ids
}

// When a clone is flattened, the driver is not notified that its parent can be removed.
func TestASweepTriesWhatIsOursInTheTrash(t *testing.T) {
	pool, tools := play(t, trash("1", "2", "3")...)
	s := rbd.Sweeper{For: time.Hour}
	s.Sweep(t.Context(), pool)
	if diff := cmp.Diff([]string{"1", "2", "3"}, removed(tools)); diff != "" {
		t.Error(diff)
	}
	calls := len(tools.Calls())
	s.Sweep(t.Context(), pool)
	if len(tools.Calls()) > calls {
		t.Errorf("swept again at once: %q", tools.Lines()[calls:])
	}
	elsewhere := pool
	elsewhere.Place.Pool = "q"
	s.Sweep(t.Context(), elsewhere)
	if last := tools.Lines()[calls]; last != "rbd trash ls q --format=json" {
		t.Errorf("another pool: %s", last)
	}
}

// Many images that are still read must not delay a call, nor keep the images after them from being
// removed.
func TestASweepGoesOnWhereItStopped(t *testing.T) {
	pool, tools := play(t, trash("1", "2", "3")...)
	s := rbd.Sweeper{Every: time.Nanosecond, For: time.Nanosecond}
	for range 4 {
		s.Sweep(t.Context(), pool)
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "1"}, removed(tools)); diff != "" {
		t.Error(diff)
	}
}

// If the existence of the volume cannot be checked, its deletion fails.
func TestADeleteWithoutItsProgramFails(t *testing.T) {
	pool, tools := play(t)
	tools.Break("rbd")
	if err := pool.Delete(t.Context(), volume); err == nil {
		t.Error("Delete says that the volume is gone")
	}
}

func TestTooLongAChainIsCutBeforeItGrows(t *testing.T) {
	var s script
	s.add("rbd info p/purser.vol", missing).
		add("rbd info", step{Stdout: `{"id":"1a","parent":{"pool":"p","id":"1a"}}`}).
		add("rbd snap ls", step{Stdout: `[{"id":3,"name":"` + handle.Snapshot(handle.Volume(place, "src"), "s").Snap + `","namespace":{"type":"user"}}]`}).
		add("ceph rbd task add flatten p/purser.src", step{})
	pool, tools := play(t, s...)
	plan := blueprint()
	plan.Request.Source.Snapshot, _ = handle.Snapshot(handle.Volume(place, "src"), "s").ID()
	if err := pool.Create(t.Context(), plan); !fault.Busy.Is(err) || !strings.Contains(err.Error(), "ceph rbd task list") {
		t.Errorf("Create: %v, want busy", err)
	}
	for _, line := range tools.Lines() {
		if strings.HasPrefix(line, "rbd clone") {
			t.Errorf("cloned: %s", line)
		}
	}
}

func TestASourceElsewhereIsRefused(t *testing.T) {
	var s script
	s.add("rbd info", missing)
	pool, _ := play(t, s...)
	plan := blueprint()
	elsewhere := place
	elsewhere.Pool = "q"
	plan.Request.Source.Volume, _ = handle.Volume(elsewhere, "src").ID()
	if err := pool.Create(t.Context(), plan); !fault.Invalid.Is(err) {
		t.Errorf("Create: %v, want invalid", err)
	}
}

func TestLimits(t *testing.T) {
	for _, bad := range []map[string]string{{"rbd_cache": "true"}, {"rbd_qos_iops_limit": "-1"}, {"rbd_qos_iops_limit": "many"}} {
		if err := rbd.CheckLimits(bad); !fault.Invalid.Is(err) {
			t.Errorf("%v: %v, want invalid", bad, err)
		}
	}
	if err := rbd.CheckLimits(map[string]string{"rbd_qos_write_bps_burst": "0"}); err != nil {
		t.Error(err)
	}
}
