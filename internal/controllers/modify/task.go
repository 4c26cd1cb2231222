package modify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/controllers/boundclaim"
	"github.com/purser-csi/purser/internal/core/attributes"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/world"
)

type next = verdict.Verdict[attributes.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key objects.ClaimKey) (attributes.Snapshot, error) {
	retry := c.retries.Get(key)
	return world.Modification(ctx, c.Store.Reader(), key, world.ModificationMemory{
		Driver: c.Driver, Retry: attributes.Retry{Class: retry.Inputs, NotBefore: retry.NotBefore},
	})
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s attributes.Snapshot, now time.Time) next {
	return attributes.Decide(s, now)
}

// About implements reconcile.Task.
func (c *Controller) About(key objects.ClaimKey, s attributes.Snapshot) reconcile.About {
	about := reconcile.About{
		Log: []any{telemetry.KeyClaim, key.String()}, Inputs: func() string { return attributes.ClassID(s.Class) },
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
func (c *Controller) Apply(ctx context.Context, s attributes.Snapshot, action attributes.Action) (next, error) {
	switch a := action.(type) {
	case attributes.Modify:
		return c.modify(ctx, s), nil
	case attributes.SetVolumeClass:
		return nil, c.Store.PatchVolumeInOrder(ctx, s.Volume, func(pv *corev1.PersistentVolume) {
			pv.Spec.VolumeAttributesClassName = &a.Target
		})
	case attributes.Begin:
		return nil, c.patchClaim(ctx, s, action, boundclaim.FailOnConflict)
	case attributes.MarkPending, attributes.Finish, attributes.Fail, attributes.Cancel:
		return nil, c.patchClaim(ctx, s, action, boundclaim.ReadOnConflict)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

func (c *Controller) patchClaim(
	ctx context.Context, s attributes.Snapshot, a attributes.Action, on boundclaim.Conflict,
) error {
	return boundclaim.PatchStatus(ctx, c.Store, boundclaim.Write[attributes.Action]{
		Claim: s.Claim, Action: a, Apply: attributes.Apply, Now: c.Clock.Now, On: on,
	})
}

// modify calls the driver, and turns its answer into the next verdict.
func (c *Controller) modify(ctx context.Context, s attributes.Snapshot) next {
	failure, err := c.call(ctx, s)
	if errors.Is(err, errBusy) {
		return verdict.Wait[attributes.Action]{
			Finding: verdict.Finding{
				Reason:  verdict.ModifyAwaitsRetry,
				Message: "another call for the volume is in flight",
			},
			Until: c.Clock.Now().Add(c.Backoff.First),
		}
	}
	if err != nil { // the call was not made
		return verdict.Refuse[attributes.Action]{Finding: verdict.Finding{
			Reason:  verdict.ModifyFailed,
			Message: err.Error(),
		}}
	}
	return attributes.AfterModify(s, failure)
}

// errBusy says that another call for the volume is in flight in this process (RZ-H17).
var errBusy = errors.New("another call for the volume is in flight")

// call makes one ControllerModifyVolume call. err is not nil if the call could not be made.
func (c *Controller) call(ctx context.Context, s attributes.Snapshot) (*attributes.Failure, error) {
	request := &csi.ControllerModifyVolumeRequest{
		VolumeId: s.Volume.Spec.CSI.VolumeHandle, MutableParameters: parameters(s, c.Metadata),
	}
	var ref types.NamespacedName
	if secret := secretOf(s.Volume); secret != nil {
		ref = *secret
	}
	failure := c.caller.Do(ctx, csirpc.Call{
		Method: "ControllerModifyVolume", Volume: s.Volume.Name, Handle: request.GetVolumeId(), Timeout: c.Timeout, Secret: ref,
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
	return &attributes.Failure{Code: failure.EffectCode(), Message: failure.Message}, nil
}

// The keys of the names that [WithNames] adds (RZ-F7).
const (
	keyClaimName      = "csi.storage.k8s.io/pvc/name"
	keyClaimNamespace = "csi.storage.k8s.io/pvc/namespace"
	keyVolumeName     = "csi.storage.k8s.io/pv/name"
)

func parameters(s attributes.Snapshot, metadata Metadata) map[string]string {
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
	name, namespace := pv.Annotations[names.AnnControllerModifySecret], pv.Annotations[names.AnnControllerModifySecretNS]
	if name != "" && namespace != "" {
		return &types.NamespacedName{Namespace: namespace, Name: name}
	}
	if ref := pv.Spec.CSI.ControllerExpandSecretRef; ref != nil {
		return &types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return nil
}
