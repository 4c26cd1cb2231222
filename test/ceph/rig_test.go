package ceph

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	driverceph "github.com/purser-csi/purser/internal/driver/backend/ceph"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/mapping"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/test/ceph/cluster"
)

const (
	pool       = "rbd"
	filesystem = "cephfs"
	userName   = "csi"
)

// shared is the one cluster of all tests; nil where none was asked for.
var shared *cluster.Cluster

var userKey string

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(func() int { return run(m) }))
}

func run(m *testing.M) (status int) {
	if cluster.NotAsked() != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "ceph")
	if err == nil {
		defer os.RemoveAll(dir)
		shared, err = prepare(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}()
	return m.Run()
}

func prepare(ctx context.Context, dir string) (*cluster.Cluster, error) {
	c, err := cluster.Start(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err = c.AddPool(ctx, pool); err == nil {
		err = c.AddFilesystem(ctx, filesystem)
	}
	if err == nil {
		userKey, err = c.AddUser(ctx, userName)
	}
	if err != nil {
		_ = c.Stop()
		return nil, err
	}
	return c, nil
}

// needCeph skips a test, and says why.
func needCeph(t *testing.T) {
	t.Helper()
	if why := cluster.NotAsked(); why != "" {
		t.Skip(why)
	}
}

// rig is a backend of one node.
type rig struct {
	t   *testing.T
	dir string
	*driverceph.Backend
	fuse *mapping.Fuse
	// patience and grace are the backend's; its own when zero.
	patience, grace time.Duration
}

func newRig(t *testing.T) *rig {
	t.Helper()
	needCeph(t)
	dir, err := os.MkdirTemp("", "purser")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir}
	t.Cleanup(func() {
		if left, err := mount.Below(dir); err != nil || len(left) > 0 {
			t.Errorf("left mounted: %q, %v", left, err)
		}
		if _, err := mount.CleanBelow(dir); err != nil {
			return // removing a folder with mounts would empty them
		}
		if _, err := loopfile.DetachBelow(context.Background(), dir); err != nil {
			t.Errorf("leave no loop device behind: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	r.restart()
	return r
}

// restart forgets everything that is in memory, and holds nothing that a
// process that ended would not hold.
func (r *rig) restart() {
	r.t.Helper()
	if r.fuse != nil {
		r.fuse.Release()
	}
	tools := command.NewRunner(command.Config{Patience: r.patience, Grace: r.grace})
	r.fuse = mapping.NewFuse(tools)
	b, err := driverceph.New(driverceph.Config{
		StateDir: filepath.Join(r.dir, "state"), ConfDir: shared.ConfDir(), Tools: tools, Grace: r.grace,
		Mappers: []mapping.Mapper{&mapping.Kernel{Tools: tools, Sys: "/sys"}, &mapping.NBD{Tools: tools, Sys: "/sys"}, r.fuse},
	})
	if err == nil {
		err = b.Recover(r.t.Context())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.Backend = b
}

// ctx is a request with secrets.
func (r *rig) ctx() context.Context {
	return backend.WithSecrets(r.t.Context(), backend.NewSecrets(map[string]string{"userID": userName, "userKey": userKey}))
}

var (
	images     = map[string]string{"pool": pool}
	subvolumes = map[string]string{"kind": "cephfs", "fsName": filesystem}
	mounted    = backend.Capability{Type: backend.Mount, Mode: backend.SingleNodeWriter}
	raw        = backend.Capability{Type: backend.Block, Mode: backend.SingleNodeWriter}
)

const mebi = 1 << 20

// request is one for a volume; changes adapt it.
func (r *rig) request(name string, parameters map[string]string, changes ...func(*backend.Request)) backend.Request {
	r.t.Helper()
	id, err := r.VolumeID(name, parameters)
	if err != nil {
		r.t.Fatal(err)
	}
	request := backend.Request{
		ID: id, Name: name, Size: backend.Range{Required: 32 * mebi}, Capabilities: []backend.Capability{mounted}, Parameters: parameters,
	}
	for _, change := range changes {
		change(&request)
	}
	return request
}

func from(snapshot backend.ID) func(*backend.Request) {
	return func(r *backend.Request) { r.Source.Snapshot = snapshot }
}

func cloneOf(volume backend.ID) func(*backend.Request) {
	return func(r *backend.Request) { r.Source.Volume = volume }
}

// create makes a volume, as often as the backend says that it is busy, and
// deletes it when the test is over.
func (r *rig) create(request backend.Request) backend.Volume {
	r.t.Helper()
	v := busy(r.t, func() (backend.Volume, error) { return r.Create(r.ctx(), request) })
	r.t.Cleanup(func() { r.delete(v.ID) })
	return v
}

func (r *rig) delete(id backend.ID) {
	r.t.Helper()
	ctx := context.WithoutCancel(r.ctx())
	if err := r.Delete(ctx, id); err != nil {
		r.t.Errorf("delete %s: %v", id, err)
	}
}

func (r *rig) snapshot(name string, source backend.ID) backend.Snapshot {
	r.t.Helper()
	id, err := r.SnapshotID(name, source)
	if err != nil {
		r.t.Fatal(err)
	}
	volume, err := r.Get(r.ctx(), source)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := r.CreateSnapshot(r.ctx(), backend.SnapshotRequest{ID: id, Name: name, Source: source, SourceBytes: volume.CapacityBytes})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := r.DeleteSnapshot(context.WithoutCancel(r.ctx()), id); err != nil {
			r.t.Errorf("delete snapshot %s: %v", id, err)
		}
	})
	return s
}

// stage brings a volume to the node until the test is over.
func (r *rig) stage(id backend.ID, c backend.Capability) (path string) {
	r.t.Helper()
	path = r.stagingPath(id)
	if err := r.Stage(r.ctx(), backend.Staging{Volume: id, Path: path, Capability: c}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.unstage(id) })
	return path
}

func (r *rig) stagingPath(id backend.ID) string {
	path := filepath.Join(r.dir, "staging", id.String())
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *rig) unstage(id backend.ID) {
	r.t.Helper()
	if err := r.Unstage(context.WithoutCancel(r.t.Context()), id, r.stagingPath(id)); err != nil {
		r.t.Errorf("unstage %s: %v", id, err)
	}
}

// flush writes what is in memory for one filesystem: another one, here or of
// another test, could hang.
func flush(t *testing.T, path string) {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = file.WriteString(content); err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil || string(content) != want {
		t.Errorf("%s: %.40q, %v, want %q", path, content, err, want)
	}
}

// wantEmptyPool says that nothing is left of any volume.
func wantEmptyPool(t *testing.T) {
	t.Helper()
	for _, question := range [][]string{{"rbd", "ls", pool}, {"rbd", "trash", "ls", pool}, {"rbd", "group", "ls", pool}} {
		out, err := shared.Run(t.Context(), question...)
		if err != nil || out != "" && out != "purser-names" {
			t.Errorf("%s: %q, %v, want nothing", strings.Join(question, " "), out, err)
		}
	}
}
