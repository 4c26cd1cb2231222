package rbd_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/record"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// A volume exists from the moment that it has its record, so that is the last
// thing that is written.
func TestTheRecordIsTheLastStepOfACreate(t *testing.T) {
	pool, tools := play(t, step{Begins: "rbd"})
	plan := blueprint()
	if err := pool.Create(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	text, err := record.OfRequest(plan.Request)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, tools,
		"rbd create p/purser.vol --size=1073741824B",
		"rbd config image set p/purser.vol rbd_qos_iops_limit 5",
		"rbd image-meta set p/purser.vol purser "+text,
	)
}

func TestAFailedCreateLeavesNothing(t *testing.T) {
	var s script
	s.add("rbd image-meta set", step{Status: 28, Stderr: "No space left on device\n"}).half().add("rbd", step{})
	pool, tools := play(t, s...)
	if err := pool.Create(t.Context(), blueprint()); !fault.Exhausted.Is(err) {
		t.Errorf("Create: %v, want exhausted", err)
	}
	lines := tools.Lines()
	want := []string{"rbd trash mv p/purser.vol", "rbd trash rm p/1a --no-progress"}
	if diff := cmp.Diff(want, lines[len(lines)-2:]); diff != "" {
		t.Error(diff)
	}
}

// half is what an image answers that an interrupted create left.
func (answers *script) half() *script {
	return answers.add("rbd info", step{Stdout: `{"id":"1a","name":"purser.vol","size":1073741824}`}).
		add("rbd image-meta get", missing).add("rbd status", step{Stdout: `{}`})
}

// No call asks before whether the name is free.
func TestWhatAnInterruptedCreateLeftMakesRoom(t *testing.T) {
	var s script
	s.add("rbd create", step{Status: 17, Stderr: "(17) File exists\n", Times: 1}).half().add("rbd", step{})
	pool, tools := play(t, s...)
	plan := blueprint()
	plan.Request.Mutable = nil
	if err := pool.Create(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	wantLines(t, tools,
		"rbd create p/purser.vol --size=1073741824B",
		"rbd info p/purser.vol --format=json", "rbd image-meta get p/purser.vol purser", "rbd status p/purser.vol --format=json",
		"rbd trash mv p/purser.vol", "rbd trash rm p/1a --no-progress",
		"rbd create p/purser.vol --size=1073741824B",
		`rbd image-meta set p/purser.vol purser {"format":1,"name":"vol","capabilities":null}`,
	)
}

// Another driver can have completed it meanwhile.
func TestAVolumeThatIsCompleteIsNotDiscarded(t *testing.T) {
	var s script
	s.add("rbd create", step{Status: 17}).add("rbd image-meta get", step{Stdout: recordOf(t, "vol")}).add("rbd info", step{Stdout: `{"id":"1a","size":7}`})
	pool, tools := play(t, s...)
	if err := pool.Create(t.Context(), blueprint()); !fault.Incompatible.Is(err) {
		t.Errorf("Create: %v, want incompatible", err)
	}
	for _, line := range tools.Lines() {
		if strings.Contains(line, "trash") {
			t.Errorf("discarded: %s", line)
		}
	}
}

// While an image is being imported its name is taken too; the program that
// imports would remove it when it finds that.
func TestAnInterruptedImportIsStoppedBeforeTheNext(t *testing.T) {
	group := handle.Group(handle.Volume(place, "src"), "g")
	var s script
	s.add("rbd snap ls", step{Stdout: `[{"id":3,"name":".group.x","namespace":{"type":"group","group":"purser.src.` + group.Snap + `"}}]`}).
		add("rbd image-meta get", missing).add("rbd status", step{Stdout: `{"migration":{"state":"prepared"}}`}).
		add("rbd image-meta list", step{Stdout: `{}`}).add("rbd info", step{Stdout: `{"id":"1a","size":1073741824}`}).add("rbd", step{})
	pool, tools := play(t, s...)
	plan := blueprint()
	plan.Request.Source.Snapshot, _ = handle.Member(handle.Volume(place, "src"), group).ID()
	if err := pool.Create(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	abort := slices.Index(tools.Lines(), "rbd migration abort p/purser.vol --no-progress")
	prepare := slices.IndexFunc(tools.Lines(), func(line string) bool { return strings.HasPrefix(line, "rbd migration prepare") })
	if abort < 0 || prepare < abort {
		t.Errorf("not stopped before: %q", tools.Lines())
	}
}

// Metadata that a copy has from its source must not count as its own.
func TestWhatACopyBringsAlong(t *testing.T) {
	snapshot := handle.Snapshot(handle.Volume(place, "src"), "s")
	removal := "rbd image-meta remove p/purser.vol "
	for name, test := range map[string]struct {
		along map[string]string
		want  []string
	}{
		"the record of its source":         {along: map[string]string{"purser": recordOf(t, "src"), "theirs": "x"}},
		"one that has its name":            {along: map[string]string{"purser": recordOf(t, "vol")}, want: []string{removal + "purser"}},
		"one that cannot be read":          {along: map[string]string{"purser": "{"}, want: []string{removal + "purser"}},
		"limits and records of snapshots":  {along: map[string]string{"conf_rbd_qos_iops_limit": "1", "purser.snap.s": "x"}, want: []string{removal + "conf_rbd_qos_iops_limit", removal + "purser.snap.s"}},
		"the mark of a filesystem to come": {along: map[string]string{"purser.formatting": "begun"}, want: []string{removal + "purser.formatting"}},
	} {
		list, _ := json.Marshal(test.along)
		var s script
		s.add("rbd image-meta list", step{Stdout: string(list)}).add("rbd info", step{Stdout: `{"id":"1a"}`}).
			add("rbd snap ls", step{Stdout: `[{"id":3,"size":1073741824,"name":"` + snapshot.Snap + `","namespace":{"type":"user"}}]`}).add("rbd", step{})
		pool, tools := play(t, s...)
		plan := blueprint()
		plan.Request.Source.Snapshot, _ = snapshot.ID()
		if err := pool.Create(t.Context(), plan); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		removed := slices.DeleteFunc(tools.Lines(), func(line string) bool { return !strings.HasPrefix(line, removal) })
		if !slices.Equal(removed, test.want) {
			t.Errorf("%s: %q, want %q", name, removed, test.want)
		}
	}
}

// The program does not make an image smaller.
func TestAnImageThatIsLargeEnoughStays(t *testing.T) {
	refusal := step{Begins: "rbd resize", Status: 22, Stderr: "rbd: shrinking an image is only allowed with the --allow-shrink flag\n"}
	pool, _ := play(t, refusal, step{Begins: "rbd info", Stdout: `{"size":9}`})
	if now, err := pool.Expand(t.Context(), volume, 7); err != nil || now != 9 {
		t.Errorf("Expand: %d, %v, want 9", now, err)
	}
	if _, err := pool.Expand(t.Context(), volume, 10); err == nil || !strings.Contains(err.Error(), "shrinking") {
		t.Errorf("refused for another reason: %v", err)
	}
	pool, _ = play(t, step{Begins: "rbd resize", Status: 2})
	if _, err := pool.Expand(t.Context(), volume, 7); !fault.NotFound.Is(err) {
		t.Errorf("no such image: %v, want not found", err)
	}
}

func TestAPoolThatDoesNotExistIsAMistakeInTheClass(t *testing.T) {
	var s script
	s.add("rbd info", missing).add("rbd create", missing)
	pool, _ := play(t, s...)
	if err := pool.Create(t.Context(), blueprint()); !fault.Invalid.Is(err) || !strings.Contains(err.Error(), "rbd pool init p") {
		t.Errorf("Create: %v, want invalid and what to do", err)
	}
}
