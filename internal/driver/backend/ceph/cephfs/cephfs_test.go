package cephfs_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/cephfs"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/test/ceph/faketool"
)

func TestMain(m *testing.M) { os.Exit(faketool.Main(m)) }

type step = faketool.Step

var (
	place  = handle.Place{Kind: handle.CephFS, Cluster: "ceph", Pool: "fs"}
	volume = handle.Volume(place, "vol")
)

func play(t *testing.T, script ...step) (cephfs.Filesystem, *faketool.Tools) {
	t.Helper()
	tools := faketool.New(t, script...)
	return cephfs.Filesystem{
		Tools:  command.NewRunner(command.Config{LookPath: tools.LookPath, Environment: tools.Environment()}),
		Access: command.Access{Cluster: "ceph", Conf: "/ceph.conf", User: "csi", Key: command.NewKey("secret")},
		Place:  place,
	}, tools
}

func at(begins string, s step) step {
	s.Begins = "ceph fs " + begins
	return s
}

// words are the calls without their options.
func words(tools *faketool.Tools) (all []string) {
	for _, call := range tools.Calls() {
		all = append(all, call.Words())
	}
	return all
}

func blueprint() cephfs.Blueprint {
	return cephfs.Blueprint{Object: volume, Request: backend.Request{Name: "vol"}, Bytes: 1 << 30}
}

// The group of our subvolumes is made with the first one, and the record is
// the last thing that is written.
func TestTheFirstVolumeMakesTheGroup(t *testing.T) {
	fs, tools := play(t,
		at("subvolume create", step{Status: 2, Stderr: "Error ENOENT: subvolume group 'purser' does not exist\n", Times: 1}),
		at("subvolumegroup create", step{}), at("subvolume create", step{}), at("subvolume metadata set", step{}))
	if err := fs.Create(t.Context(), blueprint()); err != nil {
		t.Fatal(err)
	}
	calls := words(tools)
	calls[3] = strings.SplitAfter(calls[3], "purser ")[0]
	want := []string{
		"ceph fs subvolume create fs vol", "ceph fs subvolumegroup create fs purser", "ceph fs subvolume create fs vol",
		"ceph fs subvolume metadata set fs vol purser ",
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(tools.Calls()[2].Arguments, "--size=1073741824") {
		t.Errorf("no quota: %q", tools.Calls()[2].Arguments)
	}
}

func TestAFilesystemThatDoesNotExistIsAMistakeInTheClass(t *testing.T) {
	fs, _ := play(t, at("subvolume create", step{Status: 2, Stderr: "Error ENOENT: FS 'fs' not found\n"}))
	if err := fs.Create(t.Context(), blueprint()); !fault.Invalid.Is(err) || !strings.Contains(err.Error(), "ceph fs ls") {
		t.Errorf("Create: %v, want invalid and what to do", err)
	}
}

func TestWhatADeleteDoes(t *testing.T) {
	const rm, ls = "ceph fs subvolume rm fs vol", "ceph fs subvolume snapshot ls fs vol"
	clone := "c" + strings.Repeat("a", 26)
	for name, test := range map[string]struct {
		script []step
		want   []string
		inUse  bool
	}{
		"of a volume":         {script: []step{at("subvolume rm", step{})}, want: []string{rm}},
		"of one that is gone": {script: []step{at("subvolume rm", step{Status: 2})}, want: []string{rm}},
		"of one with snapshots": {
			script: []step{at("subvolume rm", step{Status: 39, Times: 1}), at("subvolume snapshot ls", step{Stdout: `[]`}), at("subvolume rm", step{})},
			want:   []string{rm, ls, rm},
		},
		"of one that an interrupted copy was made from": {
			script: []step{
				at("subvolume rm", step{Status: 39, Times: 1}), at("subvolume snapshot ls", step{Stdout: `[{"name":"` + clone + `"}]`}),
				at("subvolume snapshot rm", step{}), at("subvolume rm", step{}),
			},
			want: []string{rm, ls, "ceph fs subvolume snapshot rm fs vol " + clone, rm},
		},
		"of one that is being copied to": {
			script: []step{at("subvolume rm", step{Status: 11, Times: 1}), at("clone cancel", step{}), at("subvolume rm", step{})},
			want:   []string{rm, "ceph fs clone cancel fs vol", rm},
		},
		"of one that is being copied from": {
			script: []step{
				at("subvolume rm", step{Status: 39}), at("subvolume snapshot ls", step{Stdout: `[{"name":"` + clone + `"}]`}), at("subvolume snapshot rm", step{Status: 11}),
			},
			want:  []string{rm, ls, "ceph fs subvolume snapshot rm fs vol " + clone},
			inUse: true,
		},
	} {
		fs, tools := play(t, test.script...)
		if err := fs.Delete(t.Context(), volume); fault.InUse.Is(err) != test.inUse || !test.inUse && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, words(tools)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// If the existence of the volume cannot be checked, its deletion fails.
func TestADeleteWithoutItsProgramFails(t *testing.T) {
	fs, tools := play(t)
	tools.Break("ceph")
	if err := fs.Delete(t.Context(), volume); err == nil {
		t.Error("Delete says that the volume is gone")
	}
}

// The cluster copies in the background; the same request finds the copy.
func TestACopyIsStartedOnce(t *testing.T) {
	const (
		copying  = `{"status":{"state":"in-progress"}}`
		complete = `{"status":{"state":"complete"}}`
		failed   = `{"status":{"state":"failed"}}`
	)
	snapshot := handle.Snapshot(handle.Volume(place, "src"), "s")
	plan := blueprint()
	plan.Request.Source.Snapshot, _ = snapshot.ID()
	rest := []step{
		at("subvolume snapshot clone", step{}), at("subvolume info", step{Stdout: `{"bytes_quota":1073741824}`}),
		at("subvolume metadata set", step{}), at("subvolume rm", step{}),
	}
	start := "ceph fs subvolume snapshot clone fs src " + snapshot.Snap + " vol"

	fs, tools := play(t, append([]step{
		at("clone status", step{Status: 2, Times: 1}), at("clone status", step{Stdout: copying, Times: 1}), at("clone status", step{Stdout: complete}),
	}, rest...)...)
	if err := fs.Create(t.Context(), plan); err != nil {
		t.Error(err)
	}
	if calls := words(tools); calls[1] != start || !strings.HasPrefix(calls[len(calls)-1], "ceph fs subvolume metadata set") {
		t.Errorf("calls: %q", calls)
	}

	fs, tools = play(t, append([]step{at("clone status", step{Stdout: failed})}, rest...)...)
	if err := fs.Create(t.Context(), plan); !fault.Busy.Is(err) {
		t.Errorf("a copy that failed: %v, want busy", err)
	}
	if calls := words(tools); slices.Contains(calls, start) || calls[len(calls)-1] != "ceph fs subvolume rm fs vol" {
		t.Errorf("calls: %q", calls)
	}
}

func TestASourceElsewhereIsRefused(t *testing.T) {
	fs, _ := play(t, at("clone status", step{Status: 2}))
	elsewhere := place
	elsewhere.Pool = "other"
	plan := blueprint()
	plan.Request.Source.Volume, _ = handle.Volume(elsewhere, "src").ID()
	if err := fs.Create(t.Context(), plan); !fault.Invalid.Is(err) {
		t.Errorf("Create: %v, want invalid", err)
	}
}

func TestWhatIsNoVolume(t *testing.T) {
	const info = `{"bytes_quota":1073741824,"state":"complete"}`
	for name, script := range map[string][]step{
		"nothing":              {at("subvolume info", step{Status: 2})},
		"a copy":               {at("subvolume info", step{Status: 11})},
		"a deleted volume":     {at("subvolume info", step{Stdout: `{"state":"snapshot-retained"}`})},
		"one without a record": {at("subvolume info", step{Stdout: info}), at("subvolume metadata get", step{Status: 2})},
	} {
		fs, _ := play(t, script...)
		if _, err := fs.Get(t.Context(), volume); !fault.NotFound.Is(err) {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
}
