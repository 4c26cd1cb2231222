package ceph

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// programVariable names the environment variable with the path of ceph-csi's program.
const programVariable = "CEPHCSI"

// kind is one of ceph-csi's drivers.
type kind struct {
	short, name string
	// mounts says that the node service of the driver works on any kernel: CephFS by ceph-fuse. An RBD
	// image needs the kernel's client.
	mounts bool
}

var (
	rbd    = kind{short: "rbd", name: "rbd.csi.ceph.com"}
	cephfs = kind{short: "cephfs", name: "cephfs.csi.ceph.com", mounts: true}
)

// driver is a running ceph-csi.
type driver struct {
	*stage.Program
	kind

	rig         *rig
	socket, log string
}

// namespace prepares the folders that ceph-csi uses by fixed paths, in a mount namespace of its own:
// it reads /etc/ceph-csi-config/config.json, writes /etc/ceph/ceph.conf and keys below /tmp/csi/keys.
const namespace = `set -e
private=$1 program=$2
shift 2
mount --make-private /
mount -t tmpfs tmpfs "$private/etc"
mkdir "$private/etc/upper" "$private/etc/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$private/etc/upper,workdir=$private/etc/work" overlay /etc
mkdir -p /etc/ceph-csi-config /tmp/csi
cp "$private/config.json" /etc/ceph-csi-config/config.json
mount --bind "$private/keys" /tmp/csi
exec "$program" "$@"
`

// startDriver runs ceph-csi until the test ends.
func (r *rig) startDriver(k kind) *driver {
	r.Helper()
	config, err := json.Marshal([]any{map[string]any{"clusterID": r.fsid, "monitors": []string{r.ceph.Address()}}})
	r.must(err)
	r.must(os.WriteFile(filepath.Join(r.private, "config.json"), config, 0o600))
	d := &driver{kind: k, rig: r, socket: filepath.Join(r.data, k.short+".sock"), log: filepath.Join(r.private, k.short+".log")}
	d.start()
	r.Cleanup(d.Kill)
	return d
}

func (d *driver) start() {
	r := d.rig
	r.Helper()
	output, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	r.must(err)
	defer output.Close() // the child has its own
	services := []string{"--controllerserver"}
	if d.mounts {
		services = append(services, "--nodeserver")
	}
	d.Program, err = stage.Launch(stage.Command{
		Path: "/usr/bin/unshare", Output: output,
		Args: append([]string{
			"--mount", "--propagation", "unchanged", "sh", "-c", namespace, "sh", r.private, os.Getenv(programVariable),
			"--type=" + d.short, "--drivername=" + d.name, "--nodeid=purser", "--v=5",
			"--endpoint=unix://" + d.socket, "--csi-addons-endpoint=unix://" + filepath.Join(r.data, d.short+"-addons.sock"),
			"--pluginpath=" + filepath.Join(r.data, "plugins"), "--stagingpath=" + filepath.Join(r.data, "staging"),
		}, services...),
	})
	r.must(err)
}

// awaitCall waits until ceph-csi has got CreateVolume for these volumes.
func (d *driver) awaitCall(names ...string) {
	d.rig.Helper()
	d.rig.eventually("CreateVolume is in flight", func(context.Context) error {
		content, err := os.ReadFile(d.log)
		for _, name := range names {
			if err == nil && !bytes.Contains(content, []byte(name)) {
				err = fmt.Errorf("no call with %s", name)
			}
		}
		return err
	})
}

// objects returns what the cluster has of this driver: images, those of snapshots included, or
// subvolumes. An image that ceph-csi keeps as a step between a volume and its clone is left out.
func (d *driver) objects(ctx context.Context) (found []string, err error) {
	command := []string{"rbd", "ls", pool, "--format", "json"}
	if d.kind == cephfs {
		command = []string{"ceph", "fs", "subvolume", "ls", filesystem, group, "-f", "json"}
	}
	out, err := d.rig.ceph.Run(ctx, command...)
	if err != nil {
		return nil, err
	}
	if d.kind == rbd {
		var images []string
		err = json.Unmarshal([]byte(out), &images)
		for _, image := range images {
			if !strings.HasSuffix(image, "-temp") {
				found = append(found, image)
			}
		}
		return found, err
	}
	var subvolumes []struct{ Name string }
	err = json.Unmarshal([]byte(out), &subvolumes)
	for _, s := range subvolumes {
		found = append(found, s.Name)
	}
	return found, err
}

// leftovers returns everything of this driver, also what it has yet to remove.
func (d *driver) leftovers(ctx context.Context) ([]string, error) {
	commands := [][]string{{"rbd", "ls", pool}, {"rbd", "trash", "ls", pool}}
	if d.kind == cephfs {
		commands = [][]string{{"ceph", "fs", "subvolume", "ls", filesystem, group, "-f", "json"}}
	}
	var left []string
	for _, command := range commands {
		out, err := d.rig.ceph.Run(ctx, command...)
		if err != nil {
			return nil, err
		}
		if out != "" && out != "[]" {
			left = append(left, out)
		}
	}
	return left, nil
}
