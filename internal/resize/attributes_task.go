package resize

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	return GatherAttributes(ctx, c.Store.Cached, key, AttributesMemory{
		Driver: c.Driver, Here: c.Here,
		Retry: resizing.AttributesRetry{Class: retry.Inputs, NotBefore: retry.NotBefore},
	})
}

// Read implements reconcile.Reader.
func (c *AttributesController) Read(
	ctx context.Context, s resizing.AttributesSnapshot, refs []verdict.Ref,
) (resizing.AttributesSnapshot, error) {
	return ReadAttributes(ctx, c.Store.Cached, s, refs)
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
	to := func(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		return resizing.AttributesApply(claim, action, metav1.NewTime(c.Clock.Now()))
	}
	switch a := action.(type) {
	case resizing.Modify:
		return resizing.AfterModify(s, c.modify(ctx, s)), nil
	case resizing.SetVolumeClass:
		return nil, c.Store.PatchVolumeInOrder(ctx, s.Volume, func(pv *corev1.PersistentVolume) {
			pv.Spec.VolumeAttributesClassName = &a.Target
		})
	case resizing.AttributesBegin, resizing.AttributesReject, resizing.MarkPending, resizing.Cancel:
		return nil, c.Store.PatchClaim(ctx, s.Claim, to)
	case resizing.AttributesFinish, resizing.AttributesFail:
		return nil, c.Store.PatchOutcome(ctx, s.Claim, to)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// modify makes one ControllerModifyVolume call.
func (c *AttributesController) modify(ctx context.Context, s resizing.AttributesSnapshot) resizing.ModifyAnswer {
	request := &csi.ControllerModifyVolumeRequest{
		VolumeId: s.Volume.Spec.CSI.VolumeHandle, MutableParameters: parameters(s, c.Metadata),
	}
	call := csirpc.Call{
		Method: "ControllerModifyVolume", Volume: s.Volume.Name, Handle: request.GetVolumeId(), Timeout: c.Timeout,
		Secret: secretOf(s.Volume),
		Send: func(ctx context.Context, secrets map[string]string) error {
			request.Secrets = secrets
			_, err := c.CSI.ControllerModifyVolume(ctx, request)
			return err
		},
	}
	failure := c.caller.Do(ctx, call)
	switch {
	case failure == nil:
		return resizing.ModifyAnswer{}
	case failure.Step == csirpc.StepSecret:
		return resizing.ModifyAnswer{Unsent: fmt.Sprintf(
			"the secret %s of PersistentVolume %q for the modification cannot be read: %s", call.Secret,
			s.Volume.Name, failure.Cause,
		)}
	case !failure.Sent(): // another call for the volume is in flight in this process (RZ-H17)
		return resizing.ModifyAnswer{BusyTill: c.Clock.Now().Add(c.Backoff.First)}
	}
	return resizing.ModifyAnswer{Failure: failure.Answer()}
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

// secretOf returns the secret of the volume's annotations, else the one for expansions, if there is one
// (RZ-M9).
func secretOf(pv *corev1.PersistentVolume) (secret types.NamespacedName) {
	name := pv.Annotations[names.AnnControllerModifySecret]
	namespace := pv.Annotations[names.AnnControllerModifySecretNS]
	if name != "" && namespace != "" {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	if ref := pv.Spec.CSI.ControllerExpandSecretRef; ref != nil {
		return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return secret
}
