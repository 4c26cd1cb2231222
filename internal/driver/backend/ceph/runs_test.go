package ceph_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/driver/backend/ceph"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/mapping"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/sharing"
	"github.com/purser-csi/purser/internal/loopdev"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/test/ceph/faketool"
)

func TestMain(m *testing.M) { os.Exit(faketool.Main(m)) }

// whole is a driver over played tools.
type whole struct {
	csi.ControllerClient
	csi.NodeClient
	csi.GroupControllerClient
	t     *testing.T
	tools *faketool.Tools
	dir   string
}

var secrets = map[string]string{"userID": "csi", "userKey": "AQBqsgFrhw8fERAA/N7Hmvz+OF9eKTlWFF0zeQ=="}

func newWhole(t *testing.T) *whole {
	t.Helper()
	w := &whole{t: t, tools: faketool.New(t), dir: t.TempDir()}
	conf, sys, state := filepath.Join(w.dir, "conf"), filepath.Join(w.dir, "sys"), filepath.Join(w.dir, "state")
	for _, dir := range []string{conf, filepath.Join(sys, "bus", "rbd", "devices"), state} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	known := filepath.Join(w.dir, "filesystems")
	for path, content := range map[string]string{filepath.Join(conf, "ceph.conf"): "", known: "nodev\tceph\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runner := command.NewRunner(command.Config{LookPath: w.tools.LookPath, Environment: w.tools.Environment()})
	b, err := ceph.New(ceph.Config{
		StateDir: state, ConfDir: conf, Tools: runner,
		Mappers: []mapping.Mapper{&mapping.Kernel{Tools: runner, Sys: sys}}, Mounters: []sharing.Mounter{&sharing.Kernel{Tools: runner, Filesystems: known}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.New(driver.Config{NodeID: "node", Endpoint: "unix:///unused", StateDir: state, Backend: b, Mounter: mount.SymlinkMounter{}})
	if err != nil {
		t.Fatal(err)
	}
	w.serve(d)
	return w
}

func (w *whole) serve(d *driver.Driver) {
	w.t.Helper()
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, listener) }()
	connection, err := grpc.NewClient("passthrough:///driver", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		w.t.Fatal(err)
	}
	w.ControllerClient, w.NodeClient, w.GroupControllerClient =
		csi.NewControllerClient(connection), csi.NewNodeClient(connection), csi.NewGroupControllerClient(connection)
	w.t.Cleanup(func() {
		_ = connection.Close()
		cancel()
		if err := <-served; err != nil {
			w.t.Error(err)
		}
	})
}

// device makes a device of 32 MiB, or skips the test.
func (w *whole) device() string {
	w.t.Helper()
	detection, err := mount.Detect(w.t.TempDir())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, may := detection.Mounter.(mount.BindMounter); !may || loopdev.Usable() != nil {
		w.t.Skip("needs to mount and loop devices")
	}
	image := filepath.Join(w.dir, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Truncate(image, 32<<20); err != nil {
		w.t.Fatal(err)
	}
	device, err := loopdev.Attach(w.t.Context(), image, loopdev.UntilDetached)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := device.Detach(); err != nil {
			w.t.Error(err)
		}
	})
	return device.Path()
}

// idOf spells an object.
func idOf(o handle.Object) string {
	id, _ := o.ID()
	return id.String()
}

func capability(block bool) *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}
	if block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	}
	return c
}

func (w *whole) createVolume(parameters map[string]string, source *csi.VolumeContentSource) error {
	_, err := w.CreateVolume(w.t.Context(), &csi.CreateVolumeRequest{
		Name: "vol", CapacityRange: &csi.CapacityRange{RequiredBytes: 32 << 20}, VolumeCapabilities: []*csi.VolumeCapability{capability(false)},
		Parameters: parameters, Secrets: secrets, VolumeContentSource: source,
	})
	return err
}

func ofVolume(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
}

func ofSnapshot(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
}

func (w *whole) stage(id string, block bool) error {
	path := filepath.Join(w.dir, "staging")
	_, err := w.NodeStageVolume(w.t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: path, VolumeCapability: capability(block), Secrets: secrets,
	})
	w.t.Cleanup(func() {
		_, err := w.NodeUnstageVolume(context.WithoutCancel(w.t.Context()), &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: path})
		if err != nil {
			w.t.Error(err)
		}
	})
	return err
}

func createSnapshot(source string) func(*whole) error {
	return func(w *whole) error {
		r, err := w.CreateSnapshot(w.t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: source, Secrets: secrets})
		if s := r.GetSnapshot(); err == nil && (s.GetSizeBytes() != 32<<20 || s.GetCreationTime().AsTime().Year() != 2026) {
			w.t.Errorf("the snapshot: %v", s)
		}
		return err
	}
}

func deleteSnapshot(id string) func(*whole) error {
	return func(w *whole) error {
		_, err := w.DeleteSnapshot(w.t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id, Secrets: secrets})
		return err
	}
}

func deleteVolume(id string) func(*whole) error {
	return func(w *whole) error {
		_, err := w.DeleteVolume(w.t.Context(), &csi.DeleteVolumeRequest{VolumeId: id, Secrets: secrets})
		return err
	}
}

func expand(id string) func(*whole) error {
	return func(w *whole) error {
		_, err := w.ControllerExpandVolume(w.t.Context(), &csi.ControllerExpandVolumeRequest{
			VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20}, Secrets: secrets,
		})
		return err
	}
}

// quoted is a text as a value of JSON.
func quoted(text string) string {
	value, _ := json.Marshal(text)
	return string(value)
}

// The id of a snapshot says whether the cluster must be asked for its group.
func TestAMemberGoesWithItsGroup(t *testing.T) {
	w := newWhole(t)
	group := handle.Group(sourceImage, "snap")
	w.tools.Script(
		answer("rbd snap ls", `[{"id":3,"namespace":{"type":"group","group":"purser.src.`+group.Snap+`"}}]`),
		answer("rbd image-meta get", `{"format":1,"name":"snap","group":`+quoted(idOf(group))+`}`),
	)
	err := deleteSnapshot(idOf(handle.Member(sourceImage, group)))(w)
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), idOf(group)) {
		t.Errorf("DeleteSnapshot: %v, want which group to delete", err)
	}
}
