package ceph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/test/ceph/cluster"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// Names in the Ceph cluster of the tests.
const (
	pool       = "rbd"
	filesystem = "cephfs"
	group      = "csi" // of subvolumes, which ceph-csi does not create
	user       = "csi"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(cluster.Main(func() int {
		status := m.Run()
		if err := common.end(status != 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return status
	}))
}

// common is the Ceph cluster that all tests share; the first test starts it.
var common shared

type shared struct {
	once      sync.Once
	dir       string
	ceph      *cluster.Cluster
	fsid, key string
	err       error
}

func (s *shared) start(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "ceph"); err != nil { // the path of a socket is short
		return err
	}
	if s.ceph, err = cluster.Start(ctx, s.dir); err != nil {
		return err
	}
	if err = s.ceph.AddPool(ctx, pool); err == nil {
		err = s.ceph.AddFilesystem(ctx, filesystem)
	}
	if err == nil {
		_, err = s.ceph.Run(ctx, "ceph", "fs", "subvolumegroup", "create", filesystem, group)
	}
	if err == nil {
		s.key, err = s.ceph.AddUser(ctx, user)
	}
	if err == nil {
		s.fsid, err = s.ceph.Run(ctx, "ceph", "fsid")
	}
	return err
}

// end stops the cluster. After a failure its folder stays, for the logs.
func (s *shared) end(failed bool) (err error) {
	if s.ceph != nil {
		err = s.ceph.Stop()
	}
	_ = os.Remove("/tmp/csi") // where ceph-csi's keys were mounted
	if s.dir != "" && !failed {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// rig is what a test has: the cluster, a folder, and the built programs.
type rig struct {
	*testing.T
	*shared

	bin string
	// data is a shared mount, so that mounts of ceph-csi, which has its own mount namespace, are
	// visible outside. private is for that namespace alone.
	data, private string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if why := cluster.NotAsked(); why != "" {
		t.Skip(why)
	}
	if os.Getenv(programVariable) == "" {
		t.Skipf("%s is not set: give the path of ceph-csi's program (docs/ceph.md says how it is built)", programVariable)
	}
	bin, err := stage.Bin()
	if err != nil {
		t.Skip(err)
	}
	common.once.Do(func() { common.err = common.start(context.Background()) })
	if common.err != nil {
		t.Fatal(common.err)
	}
	dir, err := os.MkdirTemp(common.dir, "csi") // the cluster sweeps up below its folder
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, shared: &common, bin: bin, data: filepath.Join(dir, "data"), private: filepath.Join(dir, "private")}
	for _, folder := range []string{r.data, filepath.Join(r.private, "etc"), filepath.Join(r.private, "keys", "keys")} {
		r.must(os.MkdirAll(folder, 0o700))
	}
	r.must(unix.Mount(r.data, r.data, "", unix.MS_BIND, ""))
	r.must(unix.Mount("", r.data, "", unix.MS_SHARED, ""))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are in %s", dir)
		}
		if _, err := mount.CleanBelow(dir); err != nil {
			t.Errorf("leave no mount behind: %v", err)
			return
		}
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// patience bounds every wait: CephFS copies a clone for seconds, on a busy machine for longer.
const patience = 3 * time.Minute

// eventually waits until missing returns nil.
func (r *rig) eventually(what string, missing func(context.Context) error) {
	r.Helper()
	var last error
	began := time.Now()
	err := wait.PollUntilContextTimeout(r.Context(), 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			if now := missing(ctx); now == nil || last == nil || ctx.Err() == nil {
				last = now
			}
			return last == nil, nil
		})
	if err != nil {
		r.Fatalf("%s: after %s: %v", what, patience, last)
	}
	r.Logf("%s: %.1f s", what, time.Since(began).Seconds())
}
