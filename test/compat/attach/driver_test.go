package attach

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/test/scripted"
)

// driverName is a driver that an in-tree plugin is migrated to, so that scenarios can have volumes
// of the plugin.
const (
	driverName = "cinder.csi.openstack.org"
	plugin     = "kubernetes.io/cinder"
)

// driver records the calls about each volume, and fails as often as a scenario says.
type driver struct {
	scripted.Driver

	mu    sync.Mutex
	fails map[string][]codes.Code
	calls map[string][]string
	at    map[string][]string // nodes that a volume is published to
}

func serve(ctx context.Context, socket string) (*driver, func(), error) {
	d := &driver{fails: map[string][]codes.Code{}, calls: map[string][]string{}, at: map[string][]string{}, Driver: scripted.Driver{
		Name: driverName,
		Controller: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
			csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
		},
	}}
	server, err := scripted.Serve(ctx, socket, d)
	if err != nil {
		return nil, nil, err
	}
	return d, server.Stop, nil
}

// fail makes the next calls about the volume fail.
func (d *driver) fail(volume string, code codes.Code, times int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range times {
		d.fails[volume] = append(d.fails[volume], code)
	}
}

func (d *driver) call(volume, text string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	code := codes.OK
	if queue := d.fails[volume]; len(queue) > 0 {
		code, d.fails[volume] = queue[0], queue[1:]
	}
	d.calls[volume] = append(d.calls[volume], fmt.Sprintf("%s -> %s", text, code))
	if code != codes.OK {
		return status.Error(code, "as the scenario says")
	}
	return nil
}

// called returns the calls about a volume in their order; equal ones in a row count once.
func (d *driver) called(volume string) (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls[volume] {
		if len(all) == 0 || all[len(all)-1] != c {
			all = append(all, c)
		}
	}
	return all
}

// ControllerPublishVolume implements csi.ControllerServer.
func (d *driver) ControllerPublishVolume(
	_ context.Context, r *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	what := r.GetVolumeCapability()
	kind := "mount " + what.GetMount().GetFsType() + " " + strings.Join(what.GetMount().GetMountFlags(), ",")
	if what.GetBlock() != nil {
		kind = "block"
	}
	text := fmt.Sprintf("publish to %s: %s %s readonly=%t context=%v",
		r.GetNodeId(), what.GetAccessMode().GetMode(), kind, r.GetReadonly(), r.GetVolumeContext())
	if err := d.call(r.GetVolumeId(), text); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if nodes := d.at[r.GetVolumeId()]; !slices.Contains(nodes, r.GetNodeId()) {
		d.at[r.GetVolumeId()] = append(nodes, r.GetNodeId())
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"device": r.GetVolumeId()}}, nil
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (d *driver) ControllerUnpublishVolume(
	_ context.Context, r *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := d.call(r.GetVolumeId(), "unpublish from "+r.GetNodeId()); err != nil {
		return nil, err
	}
	d.lose(r.GetVolumeId(), r.GetNodeId())
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// lose ends the publication of a volume to a node.
func (d *driver) lose(volume, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at[volume] = slices.DeleteFunc(slices.Clone(d.at[volume]), func(other string) bool { return other == node })
}

// published returns the nodes that a volume is published to.
func (d *driver) published(volume string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(slices.Values(d.at[volume]))
}

// ListVolumes implements csi.ControllerServer.
func (d *driver) ListVolumes(context.Context, *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := &csi.ListVolumesResponse{}
	for volume, nodes := range d.at {
		answer.Entries = append(answer.Entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: volume}, Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: slices.Clone(nodes)},
		})
	}
	return answer, nil
}
