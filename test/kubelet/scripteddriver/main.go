// Command scripteddriver serves the CSI driver of the simulation at a socket, on a real node: the
// answer to the first CreateVolume is lost, and all other calls succeed. Its volumes are empty, in
// memory.
//
//	scripteddriver NAME SOCKET NODE
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/test/scripted"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scripteddriver:", err)
		os.Exit(1)
	}
}

const arguments = 3

func run(args []string) error {
	if len(args) != arguments {
		return errors.New("give the name of the driver, its socket and the name of the node")
	}
	if err := os.Remove(args[1]); err != nil && !errors.Is(err, fs.ErrNotExist) { // of the process before
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server, err := scripted.Serve(ctx, args[1], newDriver(args[0], args[2]))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Stop()
	return nil
}

// driver is the backend behind a socket.
type driver struct {
	scripted.Driver
	csi.UnimplementedNodeServer

	backend *csidriver.Driver
	node    string
}

func newDriver(name, node string) *driver {
	d := &driver{node: node, backend: csidriver.New(), Driver: scripted.Driver{
		Name: name, Controller: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
			csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		},
	}}
	d.backend.FirstUnanswered = true
	return d
}

// CreateVolume implements csi.ControllerServer.
func (d *driver) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return d.backend.Create(ctx, r, csidriver.Fault{})
}

// DeleteVolume implements csi.ControllerServer.
func (d *driver) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, d.backend.Delete(ctx, r.GetVolumeId(), csidriver.Fault{})
}

// ControllerPublishVolume implements csi.ControllerServer.
func (d *driver) ControllerPublishVolume(
	ctx context.Context, r *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	p := csidriver.Publication{Volume: r.GetVolumeId(), Node: r.GetNodeId()}
	return &csi.ControllerPublishVolumeResponse{}, d.backend.Publish(ctx, p, csidriver.Fault{}, ignore)
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (d *driver) ControllerUnpublishVolume(
	ctx context.Context, r *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	p := csidriver.Publication{Volume: r.GetVolumeId(), Node: r.GetNodeId()}
	return &csi.ControllerUnpublishVolumeResponse{}, d.backend.Unpublish(ctx, p, csidriver.Fault{}, ignore)
}

func ignore([]csidriver.Publication) {}

// ListVolumes implements csi.ControllerServer, for the test: the capability is not announced.
func (d *driver) ListVolumes(context.Context, *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	answer := &csi.ListVolumesResponse{}
	published := d.backend.Published()
	for _, v := range d.backend.Volumes() {
		entry := &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: v.ID, CapacityBytes: v.Bytes}, Status: &csi.ListVolumesResponse_VolumeStatus{},
		}
		for _, p := range published {
			if p.Volume == v.ID {
				entry.Status.PublishedNodeIds = append(entry.Status.PublishedNodeIds, p.Node)
			}
		}
		answer.Entries = append(answer.Entries, entry)
	}
	return answer, nil
}

// NodeGetInfo implements csi.NodeServer.
//
//nolint:unparam // the interface has an error
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

// NodeGetCapabilities implements csi.NodeServer.
func (*driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume implements csi.NodeServer: the volume is a tmpfs.
func (*driver) NodePublishVolume(
	_ context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	const mode = 0o750
	if err := os.MkdirAll(r.GetTargetPath(), mode); err != nil {
		return nil, err
	}
	if err := unix.Mount("scripted", r.GetTargetPath(), "tmpfs", 0, "size=1m"); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume implements csi.NodeServer.
func (*driver) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	err := unix.Unmount(r.GetTargetPath(), 0)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // it is not mounted
		return nil, err
	}
	if err := os.Remove(r.GetTargetPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
