package sim

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provisioning "github.com/purser-csi/purser/internal/provision"
)

// modifier changes what the driver is asked and what it answers.
type modifier struct {
	csi.ControllerClient
	modify func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerModifyVolumeRequest) error
}

func (d modifier) ControllerModifyVolume(
	ctx context.Context, in *csi.ControllerModifyVolumeRequest, _ ...grpc.CallOption,
) (*csi.ControllerModifyVolumeResponse, error) {
	return &csi.ControllerModifyVolumeResponse{}, d.modify(d.ControllerClient, ctx, in)
}

func asModifier(
	modify func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerModifyVolumeRequest) error,
) func(csi.ControllerClient, provisioning.Journal) csi.ControllerClient {
	return func(next csi.ControllerClient, _ provisioning.Journal) csi.ControllerClient {
		return modifier{next, modify}
	}
}

// beginsClass reports whether a patch of a status is the one before ControllerModifyVolume.
func beginsClass(o client.Object) bool {
	claim, ok := o.(*corev1.PersistentVolumeClaim)
	status := claim.Status.ModifyVolumeStatus
	return ok && status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumeInProgress
}

// modifyMutants must all be caught.
var modifyMutants = []mutant{
	{name: "does not record the class before the call", by: "more is asked for", client: statusPatches(
		func(o client.Object, _ map[string]any) bool { return !beginsClass(o) })},
	{name: "writes the class as the claim's before the driver has accepted it", client: statusPatches(
		func(o client.Object, patch map[string]any) bool {
			if of, ok := patch["status"].(map[string]any); ok && beginsClass(o) {
				of["currentVolumeAttributesClassName"] = o.(*corev1.PersistentVolumeClaim).Status.ModifyVolumeStatus.TargetVolumeAttributesClassName
			}
			return true
		})},
	{name: "takes every error of a modification for final", by: "driver", driver: asModifier(
		func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerModifyVolumeRequest) error {
			if _, err := next.ControllerModifyVolume(ctx, in); err != nil {
				return status.Error(codes.Internal, err.Error())
			}
			return nil
		})},
	{name: "takes an error of a modification for success", by: "driver", driver: asModifier(
		func(next csi.ControllerClient, ctx context.Context, in *csi.ControllerModifyVolumeRequest) error {
			_, _ = next.ControllerModifyVolume(ctx, in)
			return nil
		})},
	{name: "does not write the class into the PersistentVolume", client: func(api client.Client, _ client.Reader) client.Client {
		return volumePatches{api, func(o client.Object) bool {
			pv, ok := o.(*corev1.PersistentVolume)
			return !ok || pv.Spec.VolumeAttributesClassName == nil
		}}
	}},
	{name: "expands and modifies a volume at once", by: "more is asked for", strangers: true},
}
