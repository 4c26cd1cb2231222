package resize

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/csispec"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/reconcile"

	resizing "github.com/purser-csi/purser/internal/resize/rules"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[resizing.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key objects.ClaimKey) (resizing.Snapshot, error) {
	retry := c.retries.Get(key)
	memory := Memory{
		Driver: c.Driver, Here: c.Here, AnnotateFS: c.AnnotateFS, OfflineOnly: c.WatchPods && c.isOffline(key.UID),
		Retry: resizing.Retry{NotBefore: retry.NotBefore},
	}
	if retry.Inputs != "" {
		memory.Retry.Size, _ = resource.ParseQuantity(retry.Inputs) // the text was made from a quantity
	}
	return Gather(ctx, c.Store.Cached, key, memory)
}

// Read implements reconcile.Reader.
func (c *Controller) Read(
	ctx context.Context, s resizing.Snapshot, refs []verdict.Ref,
) (resizing.Snapshot, error) {
	return Read(ctx, c.Store.Cached, s, refs)
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s resizing.Snapshot, now time.Time) next { return resizing.Decide(s, now) }

// About implements reconcile.Task.
func (c *Controller) About(key objects.ClaimKey, s resizing.Snapshot) reconcile.About {
	about := reconcile.About{
		Log: []any{telemetry.KeyClaim, key.String()}, Inputs: func() string { return resizing.Attempt(s) },
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
func (c *Controller) Apply(ctx context.Context, s resizing.Snapshot, action resizing.Action) (next, error) {
	to := func(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		return resizing.Apply(claim, action, metav1.NewTime(c.Clock.Now()))
	}
	switch a := action.(type) {
	case resizing.Expand:
		return resizing.AfterExpand(s, a, c.expand(ctx, s, a)), nil
	case resizing.RaiseVolume:
		return nil, c.Store.PatchVolume(ctx, s.Volume, func(pv *corev1.PersistentVolume) {
			pv.Spec.Capacity[corev1.ResourceStorage] = a.Capacity
			if a.OldSize != "" {
				metav1.SetMetaDataAnnotation(&pv.ObjectMeta, names.AnnPreResizeCapacity, a.OldSize)
			}
		})
	case resizing.ForgetOldSize:
		return nil, c.Store.PatchVolume(ctx, s.Volume, func(pv *corev1.PersistentVolume) {
			delete(pv.Annotations, names.AnnPreResizeCapacity)
		})
	case resizing.Begin, resizing.Reject:
		return nil, c.Store.PatchClaim(ctx, s.Claim, to)
	case resizing.HandToNode, resizing.Finish, resizing.Fail:
		return nil, c.Store.PatchOutcome(ctx, s.Claim, to)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// expand calls the driver, if it expands volumes, and notes whether it wants the volume offline first.
func (c *Controller) expand(ctx context.Context, s resizing.Snapshot, a resizing.Expand) resizing.Answer {
	if !c.Driver.Controller { // RZ-X13: the node expands
		return resizing.Answer{Capacity: a.Bytes, OnNode: true}
	}
	answer := c.call(ctx, s.Volume, a.Bytes)
	if answer.Failure != nil && resizing.IsInUse(*answer.Failure) {
		c.offline.Store(s.Claim.UID, true)
	} else {
		c.offline.Delete(s.Claim.UID)
	}
	return answer
}

// call makes one ControllerExpandVolume call.
func (c *Controller) call(ctx context.Context, pv *corev1.PersistentVolume, bytes int64) resizing.Answer {
	inTree := objects.IsInTree(pv)
	pv, err := asCSI(pv)
	if err != nil {
		return resizing.Answer{Unsent: err.Error()}
	}
	what, err := csispec.CapabilityOf(pv, csispec.CapabilityOptions{MultiWriters: c.MultiWriters})
	if err != nil {
		return resizing.Answer{Unsent: err.Error()}
	}
	request := &csi.ControllerExpandVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
		VolumeCapability: what,
	}
	var response *csi.ControllerExpandVolumeResponse
	call := csirpc.Call{
		Method: "ControllerExpandVolume", Volume: pv.Name, Handle: request.GetVolumeId(), Timeout: c.Timeout,
		Migrated: inTree,
		Send: func(ctx context.Context, secrets map[string]string) (err error) {
			request.Secrets = secrets
			response, err = c.CSI.ControllerExpandVolume(ctx, request)
			return err
		},
	}
	if secret := pv.Spec.CSI.ControllerExpandSecretRef; secret != nil {
		call.Secret = types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	}
	failure := c.caller.Do(ctx, call)
	switch {
	case failure == nil:
		return resizing.Answer{Capacity: response.GetCapacityBytes(), OnNode: response.GetNodeExpansionRequired()}
	case failure.Step == csirpc.StepSecret:
		return resizing.Answer{Unsent: fmt.Sprintf(
			"the secret %s of PersistentVolume %q for the expansion cannot be read: %s", call.Secret, pv.Name,
			failure.Cause,
		)}
	case !failure.Sent(): // another call for the volume is in flight; the driver has not seen this one
		return resizing.Answer{Unsent: failure.Words()}
	}
	return resizing.Answer{Failure: failure.Answer()}
}

// asCSI returns the volume with a CSI source. A volume of a migrated in-tree plugin is translated
// (RZ-D3).
func asCSI(pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	translated, err := objects.ToCSI(pv)
	if err == nil && translated.Spec.CSI == nil {
		err = fmt.Errorf("PersistentVolume %q is neither of a CSI driver nor of a plugin that one took over", pv.Name)
	}
	return translated, err
}
