package attach

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

// reportEvery is how often a node reports the volumes in use, if they have changed.
const reportEvery = 20 * time.Millisecond

// observer follows nodes and VolumeAttachments, and writes the status of the nodes: the volumes of
// the pods on a node are in use until the pods are gone.
type observer struct {
	api client.Client

	mu       sync.Mutex
	used     map[string]map[string]int // handles that pods use, by node
	reported map[string][]string       // the volumes in use by the node's status

	begun  runner.Times // node/handle: the pod was created
	listed runner.Times // node/handle: the node's list had it first
	freed  runner.Times // node/handle: it was reported unused
	gone   runner.Times // handle: the VolumeAttachment was gone
}

func newObserver(api client.Client) *observer {
	return &observer{api: api, used: map[string]map[string]int{}, reported: map[string][]string{}}
}

func at(node, handle string) string { return node + "/" + handle }

func (o *observer) follow(ctx context.Context, r *runner.Run) error {
	if _, err := runner.Observe(ctx, r.Cache, &corev1.Node{}, o.sawNode, nil); err != nil {
		return err
	}
	_, err := runner.Observe(ctx, r.Cache, &storagev1.VolumeAttachment{}, nil, func(va *storagev1.VolumeAttachment) {
		o.gone.Add(*va.Spec.Source.PersistentVolumeName)
	})
	return err
}

func (o *observer) sawNode(node *corev1.Node) {
	for _, v := range node.Status.VolumesAttached {
		if _, handle, ok := names.ParseUniqueVolumeName(string(v.Name)); ok {
			o.listed.Add(at(node.Name, handle))
		}
	}
}

// want records that a pod with the volume comes to the node, so that the volume is in use there.
func (o *observer) want(p placed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used[p.node] == nil {
		o.used[p.node] = map[string]int{}
	}
	o.used[p.node][p.handle]++
	o.listed.Remove(at(p.node, p.handle))
	o.begun.Add(at(p.node, p.handle))
}

// release records that the pod is gone.
func (o *observer) release(p placed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used[p.node][p.handle]--; o.used[p.node][p.handle] <= 0 {
		delete(o.used[p.node], p.handle)
	}
	if !slices.Contains(o.reported[p.node], p.handle) { // it was gone before the node could report it
		o.freed.Add(at(p.node, p.handle))
	}
	o.gone.Remove(p.handle)
}

// report writes the status of all nodes until ctx ends.
func (o *observer) report(ctx context.Context, nodes []string) {
	for _, node := range nodes {
		go func() {
			for ctx.Err() == nil {
				o.reportOne(ctx, node)
				time.Sleep(reportEvery)
			}
		}()
	}
}

func (o *observer) reportOne(ctx context.Context, node string) {
	o.mu.Lock()
	used, before := slices.Sorted(maps.Keys(o.used[node])), o.reported[node]
	o.mu.Unlock()
	if slices.Equal(used, before) {
		return
	}
	volumes := make([]string, 0, len(used))
	for _, handle := range used {
		volumes = append(volumes, names.UniqueVolumeName(driverName, handle))
	}
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": volumes}})
	if err != nil {
		return
	}
	object := &corev1.Node{}
	object.Name = node
	if err := o.api.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reported[node] = used
	for _, handle := range before {
		if !slices.Contains(used, handle) {
			o.freed.Add(at(node, handle))
		}
	}
}

// untilAttached waits until the volumes are listed, and returns how long each took.
func (o *observer) untilAttached(ctx context.Context, wanted ...placed) ([]time.Duration, error) {
	return until(ctx, wanted, func(p placed) (time.Duration, bool) {
		return o.listed.After(at(p.node, p.handle), &o.begun, at(p.node, p.handle))
	})
}

// untilDetached waits until the VolumeAttachments are gone, and returns how long each took since the
// node reported the volume unused.
func (o *observer) untilDetached(ctx context.Context, wanted ...placed) ([]time.Duration, error) {
	return until(ctx, wanted, func(p placed) (time.Duration, bool) {
		return o.gone.After(p.handle, &o.freed, at(p.node, p.handle))
	})
}

func until(
	ctx context.Context, wanted []placed, took func(placed) (time.Duration, bool),
) (all []time.Duration, err error) {
	err = runner.Until(ctx, len(wanted), func(context.Context) (int, error) {
		all = all[:0]
		for _, p := range wanted {
			if d, done := took(p); done {
				all = append(all, d)
			}
		}
		return len(all), nil
	})
	return all, err
}

const (
	driverName = "attach.example"
	slowPrefix = "slow-" // of handles whose detach takes slowFor
	slowFor    = 5 * time.Second
)

// driver answers at once, except for the detach of slow handles.
type driver struct{ *runner.Driver }

func newDriver() driver {
	return driver{runner.NewDriver(driverName, csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)}
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (driver) ControllerUnpublishVolume(
	ctx context.Context, request *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if strings.HasPrefix(request.GetVolumeId(), slowPrefix) {
		if err := runner.Pause(ctx, slowFor); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}
