package loopfile

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

func groupRequest(name string, sources ...backend.ID) backend.GroupRequest {
	return backend.GroupRequest{ID: backend.IDOf(name), Name: name, Sources: sources}
}

// One writer writes a number to a first volume and then to a second one. In a group snapshot the
// second number is never ahead of the first.
func TestAGroupIsOfOnePointInTime(t *testing.T) {
	r := poolRig(t, filesystem.XFS, 1<<30, Config{})
	c := mountOf(filesystem.Ext4)
	first, second := r.create(request("first", c, 32*mebi)), r.create(request("second", c, 32*mebi))
	firstAt, secondAt := r.stage(first.ID, c), r.stage(second.ID, c)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := uint32(1); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, at := range []string{firstAt, secondAt} {
				if err := putNumber(filepath.Join(at, "number"), n); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	// They are copied in the order of their ids. The others give the writer
	// time between the first and the second.
	sources := []backend.ID{second.ID, first.ID}
	for i := range 8 {
		other := r.create(request(fmt.Sprintf("in-between-%d", i), blockAccess, 8*mebi))
		write(t, r.imageOf(other.ID), "file", 4*mebi)
		sources = append(sources, other.ID)
	}
	const rounds = 10
	for range rounds {
		g, err := r.CreateGroup(t.Context(), groupRequest("group", sources...))
		if err != nil {
			t.Fatal(err)
		}
		got := map[backend.ID]uint32{}
		for _, s := range g.Snapshots {
			if s.Source != first.ID && s.Source != second.ID {
				continue
			}
			restore := request("restored-"+s.Source.String(), c, 0)
			restore.Source.Snapshot = s.ID
			v := r.create(restore)
			got[s.Source] = readNumber(t, filepath.Join(r.stage(v.ID, c), "number"))
			r.unstage(v.ID)
			r.remove(v.ID)
		}
		if one, two := got[first.ID], got[second.ID]; two > one || one > two+1 {
			t.Errorf("first has %d, second %d", one, two)
		}
		if err := r.DeleteGroup(t.Context(), g.ID); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-stopped
}

func TestTheLifeOfAGroup(t *testing.T) {
	r := newRig(t)
	one, two := r.create(request("one", blockAccess, mebi)), r.create(request("two", blockAccess, mebi))
	write(t, r.imageOf(one.ID), "one", 4096)
	write(t, r.imageOf(two.ID), "two", 4096)
	made, err := r.CreateGroup(t.Context(), groupRequest("group", one.ID, two.ID))
	if err != nil || len(made.Snapshots) != 2 {
		t.Fatalf("CreateGroup = %+v, %v", made, err)
	}
	r = r.restart()
	got, err := r.GetGroup(t.Context(), made.ID)
	if err != nil || len(got.Snapshots) != 2 || got.Snapshots[0] != made.Snapshots[0] || got.Snapshots[1] != made.Snapshots[1] {
		t.Errorf("GetGroup = %+v, %v, want %+v", got, err, made)
	}
	ids, err := r.ListSnapshots(t.Context())
	if err != nil || len(ids) != 2 {
		t.Errorf("ListSnapshots = %v, %v", ids, err)
	}
	for _, s := range got.Snapshots {
		if s.Group != made.ID.String() {
			t.Errorf("%+v", s)
		}
		if err := r.DeleteSnapshot(t.Context(), s.ID); !fault.Invalid.Is(err) {
			t.Errorf("a member alone: %v, want an invalid argument", err)
		}
		restore := request("restored-"+s.Source.String(), blockAccess, 0)
		restore.Source.Snapshot = s.ID
		wantContent(t, r.imageOf(r.create(restore).ID), s.Source.String(), 4096)
	}
	for range 2 { // the second call is the idempotent one
		if err := r.DeleteGroup(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.GetGroup(t.Context(), made.ID); !fault.NotFound.Is(err) {
		t.Errorf("GetGroup after the delete: %v", err)
	}
	wantEntries(t, r.groups)
	wantEntries(t, r.snapshots)
}

func TestAGroupThatCannotBe(t *testing.T) {
	r := newRig(t)
	one, two := r.create(request("one", blockAccess, mebi)), r.create(request("two", blockAccess, mebi))
	if _, err := r.CreateGroup(t.Context(), groupRequest("group", one.ID, backend.IDOf("missing"))); !fault.NotFound.Is(err) {
		t.Errorf("a missing source: %v", err)
	}
	r.stage(one.ID, blockAccess)
	if _, err := r.CreateGroup(t.Context(), groupRequest("group", one.ID, two.ID)); !fault.InUse.Is(err) {
		t.Errorf("a device in use: %v, want in use", err)
	}
	wantEntries(t, r.groups)
	wantEntries(t, r.temp)
	if names := r.promises.Names(); len(names) != 2 {
		t.Errorf("the record of promises has %q, want the two volumes", names)
	}
}
