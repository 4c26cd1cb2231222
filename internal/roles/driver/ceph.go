package driver

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/driver/backend/ceph"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/roles/cli"
)

// cephSettings are the flags of the backend ceph.
type cephSettings struct {
	ConfDir string
	Timeout time.Duration
}

const defaultCephTimeout = time.Minute

func (c *cephSettings) addFlags(f *pflag.FlagSet) {
	f.StringVar(
		&c.ConfDir,
		"ceph-conf-dir",
		ceph.DefaultConfDir,
		"`folder` with a file CLUSTER.conf for each cluster, with at least its mon host",
	)
	f.DurationVar(
		&c.Timeout,
		"ceph-timeout",
		defaultCephTimeout,
		"how long one run of a program of Ceph may take before the call is UNAVAILABLE",
	)
}

func (c *cephSettings) mistakes() []error {
	return []error{
		cli.Need(filepath.IsAbs(c.ConfDir), "--ceph-conf-dir=%s: give an absolute path", c.ConfDir),
		cli.Need(c.Timeout > 0, "--ceph-timeout=%s: must be above 0", c.Timeout),
	}
}

func (c *cephSettings) newBackend(state string) (*ceph.Backend, error) {
	return ceph.New(ceph.Config{
		StateDir: state, ConfDir: c.ConfDir, Tools: command.NewRunner(command.Config{Patience: c.Timeout}),
	})
}

// usable returns an error with what is missing for the first start with Ceph. On later starts Probe
// reports it: a program that is missing during an upgrade must not keep a driver from starting that
// has volumes to unstage.
func (c *cephSettings) usable(state string) error {
	b, err := c.newBackend(state)
	if err != nil {
		return err
	}
	return b.Check(context.Background())
}

// cephHelp lists the parameters of classes and the keys of secrets. The backend refuses all others
// by name.
const cephHelp = `With --backend=ceph volumes are in Ceph clusters, through the programs rbd and
ceph. Parameters of a StorageClass:
  kind           rbd (default): images; cephfs: subvolumes
  clusterID      name of the cluster: --ceph-conf-dir has a file clusterID.conf;
                 ceph by default
  pool           pool of the images (rbd, required)
  fsName         name of the filesystem (cephfs, required)
  dataPool       pool of the data, where that is another one
  imageFeatures  features of images, such as layering,exclusive-lock (rbd)
Parameters of a VolumeAttributesClass (rbd, for images mapped by rbd-nbd or
rbd-fuse): rbd_qos_iops_limit, rbd_qos_bps_limit, the same with read_ or write_
before iops and bps, and with burst instead of limit.
Secrets: userID and userKey, of the provisioner, the node stage, the expansion,
the modification and the snapshotter.`
