package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/mount"
)

// hands make volumes usable and take them away again.
type hands interface {
	up(ctx context.Context, name string) error
	down(ctx context.Context, name string) error
}

// calls are the driver's hands: what a provisioner and a kubelet ask of it.
type calls struct {
	subject
	dir  string
	conn *csirpc.Conn
}

// serve starts a driver for a subject in a folder.
func serve(ctx context.Context, s subject, dir string) (c calls, stop func() error, err error) {
	state, endpoint := filepath.Join(dir, "state"), "unix://"+filepath.Join(dir, "csi.sock")
	b, err := s.backend(state)
	if err != nil {
		return c, nil, err
	}
	d, err := driver.New(
		driver.Config{NodeID: "node", Endpoint: endpoint, StateDir: state, Backend: b, Mounter: mount.BindMounter{}},
	)
	if err != nil {
		return c, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	end := func() error {
		cancel()
		return <-ended
	}
	select {
	case <-d.Ready():
	case err := <-ended:
		cancel()
		return c, nil, err
	}
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: endpoint, Timeout: time.Minute})
	if err != nil {
		return c, nil, errors.Join(err, end())
	}
	return calls{subject: s, dir: dir, conn: conn}, func() error { return errors.Join(conn.Close(), end()) }, nil
}

func (c calls) path(name string) string { return filepath.Join(c.dir, "at-"+name) }

func (c calls) up(ctx context.Context, name string) error {
	id, err := c.create(ctx, name, volumeBytes, nil)
	if err != nil {
		return err
	}
	if c.direct {
		_, err = c.conn.Node().NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
			VolumeId: id, TargetPath: c.path(name), VolumeCapability: c.access,
		})
		return err
	}
	return c.stage(ctx, id, name)
}

func (c calls) create(
	ctx context.Context,
	name string,
	bytes int64,
	source *csi.VolumeContentSource,
) (id string, err error) {
	r, err := c.conn.Controller().CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
		VolumeCapabilities:  []*csi.VolumeCapability{c.access},
		VolumeContentSource: source,
	})
	return r.GetVolume().GetVolumeId(), err
}

func (c calls) stage(ctx context.Context, id, name string) error {
	if err := os.MkdirAll(c.path(name), 0o750); err != nil {
		return err
	}
	_, err := c.conn.Node().NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: c.path(name), VolumeCapability: c.access,
	})
	return err
}

// down finds the volume by its name: to create it again tells its id.
func (c calls) down(ctx context.Context, name string) error {
	id, err := c.create(ctx, name, volumeBytes, nil)
	if err != nil {
		return err
	}
	return errors.Join(c.leave(ctx, id, name), c.remove(ctx, id))
}

func (c calls) leave(ctx context.Context, id, name string) error {
	if c.direct {
		_, err := c.conn.Node().
			NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: c.path(name)})
		return err
	}
	_, err := c.conn.Node().
		NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: c.path(name)})
	return err
}

func (c calls) remove(ctx context.Context, id string) error {
	_, err := c.conn.Controller().DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

func (c calls) snapshot(ctx context.Context, name, volume string) (id string, err error) {
	r, err := c.conn.Controller().
		CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
	if err == nil && !r.GetSnapshot().GetReadyToUse() {
		err = fmt.Errorf("snapshot %s is not ready", name)
	}
	return r.GetSnapshot().GetSnapshotId(), err
}

func (c calls) removeSnapshot(ctx context.Context, id string) error {
	_, err := c.conn.Controller().DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
	return err
}
