package ceph

import (
	"context"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Whatever is to be made: what a killed create left has the name and no record.
func TestAnInterruptedCreateIsRepaired(t *testing.T) {
	r := newRig(t)
	source := r.create(r.request("whole", images))
	snapshot := r.snapshot("of-whole", source.ID)
	group := r.group("of-all", source.ID)
	for name, origin := range map[string]func(*backend.Request){
		"empty":             func(*backend.Request) {},
		"of-a-volume":       cloneOf(source.ID),
		"of-a-snapshot":     from(snapshot.ID),
		"of-one-of-a-group": from(group.Snapshots[0].ID),
	} {
		request := r.request("half-"+name, images, origin)
		half := imageOf(request.ID)
		if _, err := shared.Run(t.Context(), "rbd", "create", half, "--size=7M"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Get(r.ctx(), request.ID); !fault.NotFound.Is(err) {
			t.Errorf("%s: Get of half a volume: %v, want not found", name, err)
		}
		if v := r.create(request); v.CapacityBytes != 32*mebi {
			t.Errorf("%s: the repaired volume has %d bytes", name, v.CapacityBytes)
		}
		if v, err := r.Get(r.ctx(), request.ID); err != nil || v.CapacityBytes != 32*mebi {
			t.Errorf("%s: Get of the repaired volume: %+v, %v", name, v, err)
		}
	}
}

// A clone that was killed before its last step has the record of its source.
func TestAnInterruptedCloneIsRepaired(t *testing.T) {
	r := newRig(t)
	source := r.create(r.request("cloned", images))
	snapshot := r.snapshot("of-cloned", source.ID)
	request := r.request("half-cloned", images, from(snapshot.ID), func(q *backend.Request) { q.Size.Required = 64 * mebi })
	o, err := handle.Of(snapshot.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Run(t.Context(), "rbd", "clone", imageOf(source.ID)+"@"+o.Snap, imageOf(request.ID), "--rbd-default-clone-format=2"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get(r.ctx(), request.ID); !fault.NotFound.Is(err) {
		t.Errorf("Get of half a clone: %v, want not found", err)
	}
	r.create(request)
	v, err := r.Get(r.ctx(), request.ID)
	if err != nil || v.CapacityBytes != 64*mebi || v.Source.Snapshot != snapshot.ID {
		t.Errorf("Get of the repaired clone: %+v, %v", v, err)
	}
}

// group makes a group of snapshots until the test is over.
func (r *rig) group(name string, sources ...backend.ID) backend.Group {
	r.t.Helper()
	id, err := r.GroupID(name, sources)
	if err != nil {
		r.t.Fatal(err)
	}
	made, err := r.CreateGroup(r.ctx(), backend.GroupRequest{ID: id, Name: name, Sources: sources})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := r.DeleteGroup(context.WithoutCancel(r.ctx()), id); err != nil {
			r.t.Errorf("delete group %s: %v", id, err)
		}
	})
	return made
}
