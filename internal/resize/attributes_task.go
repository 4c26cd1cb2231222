package resize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/reconcile"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type nextAttributes = verdict.Verdict[resizing.AttributesAction]

// Gather implements reconcile.Task.
func (c *AttributesController) Gather(ctx context.Context, key objects.ClaimKey) (resizing.AttributesSnapshot, error) {
	retry := c.retries.Get(key)
	return GatherAttributes(ctx, c.Store.Reader(), key, AttributesMemory{
		Driver: c.Driver, Retry: resizing.AttributesRetry{Class: retry.Inputs, NotBefore: retry.NotBefore},
	})
}

// Decide implements reconcile.Task.
func (c *AttributesController) Decide(s resizing.AttributesSnapshot, now time.Time) nextAttributes {
	return resizing.DecideAttributes(s, now)
}

// About implements reconcile.Task.
func (c *AttributesController) About(key objects.ClaimKey, s resizing.AttributesSnapshot) reconcile.About {
	about := reconcile.About{
		Log: []any{telemetry.KeyClaim, key.String()}, Inputs: func() string { return resizing.ClassID(s.Class) },
	}
	if s.Claim != nil {
		about.Object = s.Claim
	}
	if s.Volume != nil {
		about.Log = append(about.Log, telemetry.KeyVolume, s.Volume.Name)
	}
	return about
}

// Apply implements reconcile.Task.
func (c *AttributesController) Apply(
	ctx context.Context, s resizing.AttributesSnapshot, action resizing.AttributesAction,
) (nextAttributes, error) {
	switch a := action.(type) {
	case resizing.Modify:
		return c.modify(ctx, s), nil
	case resizing.SetVolumeClass:
		return nil, c.Store.PatchVolumeInOrder(ctx, s.Volume, func(pv *corev1.PersistentVolume) {
			pv.Spec.VolumeAttributesClassName = &a.Target
		})
	case resizing.AttributesBegin, resizing.AttributesReject:
		return nil, c.patchClaim(ctx, s, action, FailOnConflict)
	case resizing.MarkPending, resizing.AttributesFinish, resizing.AttributesFail, resizing.Cancel:
		return nil, c.patchClaim(ctx, s, action, ReadOnConflict)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

func (c *AttributesController) patchClaim(
	ctx context.Context, s resizing.AttributesSnapshot, a resizing.AttributesAction, on Conflict,
) error {
	return PatchStatus(ctx, c.Store, Write[resizing.AttributesAction]{
		Claim: s.Claim, Action: a, Apply: resizing.AttributesApply, Now: c.Clock.Now, On: on,
	})
}

// modify calls the driver, and turns its answer into the next verdict.
func (c *AttributesController) modify(ctx context.Context, s resizing.AttributesSnapshot) nextAttributes {
	failure, err := c.call(ctx, s)
	if errors.Is(err, errBusy) {
		return verdict.Wait[resizing.AttributesAction]{
			Finding: verdict.Because(verdict.WaitForRetry, "another call for the volume is in flight"),
			Until:   c.Clock.Now().Add(c.Backoff.First),
		}
	}
	if err != nil { // the call was not made
		return verdict.Refuse[resizing.AttributesAction]{Finding: verdict.Because(
			verdict.ModifyFailed, "%s", err.Error(),
		)}
	}
	return resizing.AfterModify(s, failure)
}

// errBusy says that another call for the volume is in flight in this process (RZ-H17).
var errBusy = errors.New("another call for the volume is in flight")

// call makes one ControllerModifyVolume call. err is not nil if the call could not be made.
func (c *AttributesController) call(
	ctx context.Context, s resizing.AttributesSnapshot,
) (*resizing.Failure, error) {
	request := &csi.ControllerModifyVolumeRequest{
		VolumeId: s.Volume.Spec.CSI.VolumeHandle, MutableParameters: parameters(s, c.Metadata),
	}
	var ref types.NamespacedName
	if secret := secretOf(s.Volume); secret != nil {
		ref = *secret
	}
	failure := c.caller.Do(ctx, csirpc.Call{
		Method: "ControllerModifyVolume", Volume: s.Volume.Name, Handle: request.GetVolumeId(), Timeout: c.Timeout,
		Secret: ref,
		Send: func(ctx context.Context, secrets map[string]string) error {
			request.Secrets = secrets
			_, err := c.CSI.ControllerModifyVolume(ctx, request)
			return err
		},
	})
	switch {
	case failure == nil:
		return nil, nil //nolint:nilnil // no failure, and the call was made
	case failure.Step == csirpc.StepSecret:
		return nil, fmt.Errorf(
			"the secret %s of PersistentVolume %q for the modification cannot be read: %w",
			ref,
			s.Volume.Name,
			failure.Cause,
		)
	case !failure.Sent():
		return nil, errBusy
	}
	return failure.Answer(), nil
}

// The keys of the names that [WithNames] adds (RZ-F7).
const (
	keyClaimName      = "csi.storage.k8s.io/pvc/name"
	keyClaimNamespace = "csi.storage.k8s.io/pvc/namespace"
	keyVolumeName     = "csi.storage.k8s.io/pv/name"
)

func parameters(s resizing.AttributesSnapshot, metadata Metadata) map[string]string {
	if metadata != WithNames {
		return s.Class.Parameters
	}
	all := map[string]string{}
	maps.Copy(all, s.Class.Parameters)
	all[keyClaimName], all[keyClaimNamespace], all[keyVolumeName] = s.Claim.Name, s.Claim.Namespace, s.Volume.Name
	return all
}

// secretOf returns the secret of the volume's annotations, else the one for expansions, else nil
// (RZ-M9).
func secretOf(pv *corev1.PersistentVolume) *types.NamespacedName {
	name := pv.Annotations[names.AnnControllerModifySecret]
	namespace := pv.Annotations[names.AnnControllerModifySecretNS]
	if name != "" && namespace != "" {
		return &types.NamespacedName{Namespace: namespace, Name: name}
	}
	if ref := pv.Spec.CSI.ControllerExpandSecretRef; ref != nil {
		return &types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return nil
}
