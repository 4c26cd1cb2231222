package sim

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provisioning "github.com/purser-csi/purser/internal/provision"
)

// statusPatches has the writes of claims' status go through a function, which may leave them out.
func statusPatches(change func(o client.Object, patch map[string]any) (send bool)) func(client.Client, client.Reader) client.Client {
	return func(api client.Client, _ client.Reader) client.Client { return patchingClient{api, change} }
}

type patchingClient struct {
	client.Client
	change func(o client.Object, patch map[string]any) bool
}

func (c patchingClient) Status() client.SubResourceWriter {
	return patchingStatus{c.Client.Status(), c.change}
}

type patchingStatus struct {
	client.SubResourceWriter
	change func(o client.Object, patch map[string]any) bool
}

func (s patchingStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return err
	}
	if !s.change(o, patch) {
		return nil
	}
	if data, err = json.Marshal(patch); err != nil {
		return err
	}
	return s.SubResourceWriter.Patch(ctx, o, client.RawPatch(types.StrategicMergePatchType, data), opts...)
}

// begins reports whether a patch of a status is the one before the call.
func begins(o client.Object) bool {
	claim, ok := o.(*corev1.PersistentVolumeClaim)
	return ok && claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == corev1.PersistentVolumeClaimControllerResizeInProgress
}

// volumePatches has the writes of volumes go through a function.
type volumePatches struct {
	client.Client
	send func(o client.Object) bool
}

func (c volumePatches) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if !c.send(o) {
		return nil
	}
	return c.Client.Patch(ctx, o, p, opts...)
}

// expander changes what the driver is asked and what it answers.
type expander struct {
	csi.ControllerClient
	expand func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error)
}

func (d expander) ControllerExpandVolume(
	ctx context.Context, in *csi.ControllerExpandVolumeRequest, _ ...grpc.CallOption,
) (*csi.ControllerExpandVolumeResponse, error) {
	return d.expand(d.ControllerClient, ctx, in)
}

func asExpander(
	expand func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error),
) func(csi.ControllerClient, provisioning.Journal) csi.ControllerClient {
	return func(next csi.ControllerClient, _ provisioning.Journal) csi.ControllerClient {
		return expander{next, expand}
	}
}

// resizeMutants must all be caught.
var resizeMutants = []mutant{
	{name: "does not record the size before the call", by: "more is asked for", client: statusPatches(func(o client.Object, _ map[string]any) bool {
		return !begins(o)
	})},
	{
		name: "writes the status without the resource version", by: "crash, and a write arrives later",
		client: statusPatches(func(_ client.Object, patch map[string]any) bool {
			if metadata, ok := patch["metadata"].(map[string]any); ok {
				delete(metadata, "resourceVersion")
			}
			return true
		}),
	},
	{name: "takes every error for final", by: "driver", driver: asExpander(
		func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
			out, err := next.ControllerExpandVolume(ctx, in)
			if err != nil {
				err = status.Error(codes.Internal, err.Error())
			}
			return out, err
		})},
	{name: "takes every error for infeasible", by: "driver", driver: asExpander(
		func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
			out, err := next.ControllerExpandVolume(ctx, in)
			if err != nil {
				err = status.Error(codes.OutOfRange, err.Error())
			}
			return out, err
		})},
	{name: "takes an error for success", by: "driver", driver: asExpander(
		func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
			out, _ := next.ControllerExpandVolume(ctx, in)
			return out, nil
		})},
	{name: "does not call the driver", driver: asExpander(
		func(_ csi.ControllerClient, _ context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
			return &csi.ControllerExpandVolumeResponse{CapacityBytes: in.GetCapacityRange().GetRequiredBytes()}, nil
		})},
	{name: "does not hand the filesystem to the node", driver: asExpander(
		func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
			out, err := next.ControllerExpandVolume(ctx, in)
			out.NodeExpansionRequired = false
			return out, err
		}), costs: true},
	{name: "forgets its own writes", forgets: true, costs: true},
	{name: "calls twice", driver: asExpander(
		func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
			if out, err := next.ControllerExpandVolume(ctx, in); err != nil {
				return out, err
			}
			return next.ControllerExpandVolume(ctx, in)
		}), costs: true},
	{name: "does not write the claim's new size", client: statusPatches(func(o client.Object, _ map[string]any) bool { return begins(o) })},
	{name: "leaves the old size in the volume's annotations", client: func(api client.Client, _ client.Reader) client.Client {
		return volumePatches{api, func(o client.Object) bool {
			_, annotated := o.GetAnnotations()["volume.alpha.kubernetes.io/pre-resize-capacity"]
			pv, ok := o.(*corev1.PersistentVolume)
			return !ok || annotated || pv.Spec.Capacity.Storage().Value() == 1<<30 || !strings.HasPrefix(pv.Name, "x")
		}}
	}},
}
