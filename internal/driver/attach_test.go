package driver

import (
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// attached serves a shelf, whose volumes three nodes can reach.
func attached(t *testing.T, more ...func(*settings)) *rig {
	t.Helper()
	with := settings{attach: Attach{Required: true, Nodes: []string{"node-1", "node-2", "node-3"}}}
	for _, change := range more {
		change(&with)
	}
	r, _, _ := onShelf(t, with)
	return r
}

func (r *rig) attach(t *testing.T, id, node string, mode csi.VolumeCapability_AccessMode_Mode) error {
	t.Helper()
	_, err := r.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: node, VolumeCapability: mountCapability(mode),
	})
	return err
}

func (r *rig) detach(t *testing.T, id, node string) error {
	t.Helper()
	_, err := r.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
	return err
}

func (r *rig) wantAttached(t *testing.T, id string, want ...string) {
	t.Helper()
	list, err := r.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	wantCode(t, err, codes.OK)
	for _, entry := range list.GetEntries() {
		if got := entry.GetStatus().GetPublishedNodeIds(); entry.GetVolume().GetVolumeId() == id && !slices.Equal(got, want) {
			t.Errorf("volume %s is listed at %q, want %q", id, got, want)
		}
	}
	one, err := r.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.OK)
	if got := one.GetStatus().GetPublishedNodeIds(); !slices.Equal(got, want) {
		t.Errorf("volume %s is at %q, want %q", id, got, want)
	}
}

// 3.1 ControllerPublishVolume.
func TestControllerPublishVolumeCodes(t *testing.T) {
	r := attached(t)
	id := r.create(t, "vol")
	tests := []struct {
		name   string
		change func(*csi.ControllerPublishVolumeRequest)
		code   codes.Code
		text   string
	}{
		{"good", func(*csi.ControllerPublishVolumeRequest) {}, codes.OK, ""},
		{"again", func(*csi.ControllerPublishVolumeRequest) {}, codes.OK, ""},
		{"no volume", func(r *csi.ControllerPublishVolumeRequest) { r.VolumeId = "" }, codes.InvalidArgument, "volume_id: missing"},
		{"no node", func(r *csi.ControllerPublishVolumeRequest) { r.NodeId = "" }, codes.InvalidArgument, "node_id: missing"},
		{"no capability", func(r *csi.ControllerPublishVolumeRequest) { r.VolumeCapability = nil }, codes.InvalidArgument, "volume_capability: missing"},
		{"a bad capability", func(r *csi.ControllerPublishVolumeRequest) { r.VolumeCapability.GetMount().FsType = "ntfs" }, codes.InvalidArgument, "ntfs"},
		{"read-only", func(r *csi.ControllerPublishVolumeRequest) { r.Readonly = true }, codes.InvalidArgument, "readonly"},
		{"unknown volume", func(r *csi.ControllerPublishVolumeRequest) { r.VolumeId = "missing" }, codes.NotFound, "missing"},
		{"impossible volume", func(r *csi.ControllerPublishVolumeRequest) { r.VolumeId = garbage }, codes.NotFound, "does not exist"},
		{"unknown node", func(r *csi.ControllerPublishVolumeRequest) { r.NodeId = "elsewhere" }, codes.NotFound, "--attach-nodes"},
		{"otherwise", func(r *csi.ControllerPublishVolumeRequest) { r.VolumeCapability = blockCapability() }, codes.AlreadyExists, "detach it first"},
		{"a second node", func(r *csi.ControllerPublishVolumeRequest) { r.NodeId = "node-2" }, codes.FailedPrecondition, `node "node-1"`},
	}
	for _, test := range tests {
		request := &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "node-1", VolumeCapability: mountCapability(writer)}
		test.change(request)
		_, err := r.ControllerPublishVolume(t.Context(), request)
		wantCode(t, err, test.code, test.text)
	}
	r.wantAttached(t, id, "node-1")
}

// 3.1 ControllerUnpublishVolume.
func TestControllerUnpublishVolumeCodes(t *testing.T) {
	r := attached(t)
	id := r.create(t, "vol")
	wantCode(t, r.detach(t, "", "node-1"), codes.InvalidArgument, "volume_id: missing")
	for _, volume := range []string{"missing", garbage, id} {
		wantCode(t, r.detach(t, volume, "node-1"), codes.OK)
		wantCode(t, r.detach(t, volume, ""), codes.OK)
	}
	wantCode(t, r.attach(t, id, "node-1", writer), codes.OK)
	wantCode(t, r.detach(t, id, "node-2"), codes.OK)
	r.wantAttached(t, id, "node-1")
	for range 2 {
		wantCode(t, r.detach(t, id, "node-1"), codes.OK)
	}
	r.wantAttached(t, id)
	wantCode(t, r.attach(t, id, "node-2", writer), codes.OK)
	r.wantAttached(t, id, "node-2")
}

func TestVolumesForSeveralNodes(t *testing.T) {
	r := attached(t)
	id := r.create(t, "vol")
	const several = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	for _, node := range []string{"node-3", "node-1"} {
		wantCode(t, r.attach(t, id, node, several), codes.OK)
	}
	wantCode(t, r.attach(t, id, "node-2", writer), codes.FailedPrecondition)
	r.wantAttached(t, id, "node-1", "node-3")
	_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition, "attached to node-1, node-3")
	wantCode(t, r.detach(t, id, ""), codes.OK)
	r.wantAttached(t, id)
	r.delete(t, id)
}

// A new process knows the attachments of the previous one.
func TestAttachmentsOutliveTheDriver(t *testing.T) {
	state := t.TempDir()
	shared := newShelf()
	begin := func() *rig {
		return attached(t, func(s *settings) { s.state, s.backend = state, shared })
	}
	r := begin()
	id := r.create(t, "vol")
	wantCode(t, r.attach(t, id, "node-2", writer), codes.OK)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = begin()
	r.wantAttached(t, id, "node-2")
	wantCode(t, r.attach(t, id, "node-1", writer), codes.FailedPrecondition, `node "node-2"`)
	wantCode(t, r.attach(t, id, "node-2", writer), codes.OK)
}

// A forced detach does not give the volume to a second node while this one
// has it staged.
func TestAStagedVolumeStaysAttached(t *testing.T) {
	r := attached(t)
	id := r.create(t, "vol")
	wantCode(t, r.attach(t, id, "node-1", writer), codes.OK)
	staging := r.target("staging")
	r.stage(t, id, staging)
	for _, node := range []string{"node-1", ""} {
		wantCode(t, r.detach(t, id, node), codes.FailedPrecondition, "staged")
	}
	r.unstage(t, id, staging)
	wantCode(t, r.detach(t, id, "node-1"), codes.OK)
}

// The limit of the shelf is 7 volumes a node.
func TestANodeHasOnlySoManyVolumes(t *testing.T) {
	r := attached(t)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		wantCode(t, r.attach(t, r.create(t, name), "node-1", writer), codes.OK)
	}
	id := r.create(t, "h")
	wantCode(t, r.attach(t, id, "node-1", writer), codes.ResourceExhausted, "7 is the limit")
	wantCode(t, r.attach(t, id, "node-2", writer), codes.OK)
}

func TestWhichNodesReachAVolume(t *testing.T) {
	tests := []struct {
		why   string
		nodes []string
		want  map[string]bool
	}{
		{"this node", nil, map[string]bool{"node-1": true, "node-2": false}},
		{"named", []string{"node-2"}, map[string]bool{"node-1": false, "node-2": true}},
		{"every node", []string{"*"}, map[string]bool{"node-1": true, "node-2": true}},
	}
	for _, test := range tests {
		r := reachOf(Config{NodeID: "node-1", Attach: Attach{Required: true, Nodes: test.nodes}})
		for node, want := range test.want {
			if err := r.check(node); (err == nil) != want {
				t.Errorf("%s: %s: %v", test.why, node, err)
			}
		}
	}
}

// Without the setting there is nothing to attach.
func TestAttachingIsOffByDefault(t *testing.T) {
	r, _, _ := onShelf(t, settings{})
	id := r.create(t, "vol")
	wantCode(t, r.attach(t, id, "node-1", writer), codes.Unimplemented)
	wantCode(t, r.detach(t, id, "node-1"), codes.Unimplemented)
	for _, test := range []struct {
		rig  *rig
		want bool
	}{{r, false}, {attached(t), true}} {
		has := advertised(t, test.rig)
		for _, capability := range []string{"controller PUBLISH_UNPUBLISH_VOLUME", "controller LIST_VOLUMES_PUBLISHED_NODES"} {
			if slices.Contains(has, capability) != test.want {
				t.Errorf("%s advertised: %v, want %v", capability, !test.want, test.want)
			}
		}
	}
}
