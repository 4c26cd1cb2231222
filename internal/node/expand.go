package node

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// expand is 5.9: the claim's status says that the node expands the volume, then that it has.
func (a *Agent) expand(ctx context.Context, s mounting.Snapshot, use mounting.Use) mounting.Verdict {
	request, err := s.ExpandRequest(a.layout, use)
	if err != nil {
		return mounting.AfterExpand(use, unsent(err))
	}
	bytes := request.GetCapacityRange().GetRequiredBytes()
	claim, err := a.noteExpansion(ctx, use.Claim, mounting.ExpansionBegun, bytes)
	if err != nil {
		return mounting.AfterExpand(use, unsent(err))
	}
	failure := a.call(ctx, s, "NodeExpandVolume", use.ExpandSecret(),
		func(ctx context.Context, driver csi.NodeClient, secrets map[string]string) error {
			request.Secrets = secrets
			_, err := driver.NodeExpandVolume(ctx, request)
			return err
		})
	if failure != nil && mounting.IsInfeasible(*failure) {
		if _, err := a.noteExpansion(ctx, claim, mounting.ExpansionInfeasible, bytes); err != nil {
			return mounting.AfterExpand(use, unsent(err))
		}
	}
	if failure != nil {
		if mounting.NeedsUnused(*failure) {
			a.editDevice(s.Key, use, func(d *mounting.Device) { d.Refused = bytes })
		}
		return mounting.AfterExpand(use, failure)
	}
	if _, err := a.noteExpansion(ctx, claim, mounting.ExpansionDone, bytes); err != nil {
		return mounting.AfterExpand(use, unsent(err)) // the call is repeated, which changes nothing
	}
	a.editDevice(s.Key, use, func(d *mounting.Device) { d.Bytes = bytes })
	message := fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q", use.ID.Spec)
	a.Events.Event(use.Pod, corev1.EventTypeNormal, mounting.EventResizeSuccess, message)
	a.Events.Event(use.Claim, corev1.EventTypeNormal, mounting.EventResizeSuccess, message)
	return nil
}

func (a *Agent) editDevice(key mounting.Key, use mounting.Use, edit func(*mounting.Device)) {
	a.change(key, func(r mounting.Record) mounting.Record {
		device, known := r.Device(use.ID.Device())
		if !known {
			return r
		}
		edit(&device)
		return r.WithDevice(device)
	})
}

// noteExpansion writes the claim's status after a step, and returns the claim as it is then.
func (a *Agent) noteExpansion(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, step mounting.ExpansionStep, bytes int64,
) (*corev1.PersistentVolumeClaim, error) {
	status, ok := mounting.AfterExpansion(claim, step, bytes)
	if !ok {
		return claim, nil
	}
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": claim.UID, "resourceVersion": claim.ResourceVersion},
		"status":   statusFields(status),
	})
	if err != nil {
		return claim, err
	}
	changed := claim.DeepCopy()
	err = a.Writer.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, raw))
	if apierrors.IsNotFound(err) {
		return claim, nil
	}
	if err != nil {
		return claim, fmt.Errorf("write the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return changed, nil
}

// statusFields are those that an expansion changes. One that is empty is removed.
func statusFields(status corev1.PersistentVolumeClaimStatus) map[string]any {
	fields := map[string]any{
		"capacity": status.Capacity, "conditions": status.Conditions, "allocatedResourceStatuses": nil,
	}
	states := map[string]any{string(corev1.ResourceStorage): nil}
	if state, ok := status.AllocatedResourceStatuses[corev1.ResourceStorage]; ok {
		states[string(corev1.ResourceStorage)] = state
	}
	fields["allocatedResourceStatuses"] = states
	return fields
}
