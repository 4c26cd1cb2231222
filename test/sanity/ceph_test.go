package sanity

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph"
	"github.com/purser-csi/purser/test/ceph/cluster"
)

const (
	pool   = "rbd"
	fsName = "cephfs"
	user   = "csi"
)

// TestCeph runs everything against one cluster, as a user with the least
// rights that do.
func TestCeph(t *testing.T) {
	if why := cluster.NotAsked(); why != "" {
		t.Skip(why)
	}
	c := startCeph(t)
	key, err := c.AddUser(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	secrets := cephSecrets(t, key)
	images := "pool: " + pool
	limits := "--csi.testvolumemutableparameters=" + yaml(t, `rbd_qos_iops_limit: "1000"`)
	subject := func(parameters string, flags ...string) subject {
		return cephSubject(t, c, append(flags, "--csi.secrets="+secrets, "--csi.testvolumeparameters="+yaml(t, parameters)))
	}
	t.Run("images with a filesystem", func(t *testing.T) { runSanity(t, subject(images, limits)) })
	t.Run("images as block devices", func(t *testing.T) {
		runSanity(t, subject(images, limits, "--csi.testvolumeaccesstype=block"))
	})
	t.Run("subvolumes", func(t *testing.T) { runSanity(t, subject("kind: cephfs\nfsName: "+fsName)) })
}

func cephSubject(t *testing.T, c *cluster.Cluster, flags []string) subject {
	t.Helper()
	return subject{
		backend: func(t *testing.T, state string) backend.Backend {
			t.Helper()
			b, err := ceph.New(ceph.Config{StateDir: state, ConfDir: c.ConfDir(), CopyWait: copyWait})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		mounter: mayMount(t), flags: append(flags, sizes(32, 64)...), least: 80, folders: []string{"ceph/staged"},
	}
}

// copyWait is for csi-sanity, which asks once where a caller would ask again.
const copyWait = 5 * time.Minute

// startCeph stops the cluster after everything that uses it.
func startCeph(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), shortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, add := range []func(context.Context) error{
		func(ctx context.Context) error { return c.AddPool(ctx, pool) },
		func(ctx context.Context) error { return c.AddFilesystem(ctx, fsName) },
	} {
		if err := add(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// cephSecrets is the file in which csi-sanity finds what Kubernetes would have
// in a Secret.
func cephSecrets(t *testing.T, key string) string {
	t.Helper()
	text := ""
	for _, call := range []string{
		"CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "ControllerValidateVolumeCapabilities",
		"ControllerExpandVolume", "ControllerModifyVolume", "NodeStageVolume", "NodePublishVolume", "NodeExpandVolume",
		"CreateSnapshot", "DeleteSnapshot", "ListSnapshots", "GetSnapshot",
	} {
		text += call + "Secret:\n  userID: " + user + "\n  userKey: " + key + "\n"
	}
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
