package resize

import (
	"context"
	"errors"
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
		Driver: c.Driver, AnnotateFS: c.AnnotateFS, OfflineOnly: c.WatchPods && c.isOffline(key.UID),
		Retry: resizing.Retry{NotBefore: retry.NotBefore},
	}
	if retry.Inputs != "" {
		memory.Retry.Size, _ = resource.ParseQuantity(retry.Inputs) // the text was made from a quantity
	}
	return Gather(ctx, c.Store.Reader(), key, memory)
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s resizing.Snapshot, now time.Time) next { return resizing.Decide(s, now) }

// About implements reconcile.Task.
func (c *Controller) About(key objects.ClaimKey, s resizing.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyClaim, key.String()}}
	if s.Claim == nil {
		return about
	}
	about.Object = s.Claim
	about.Inputs = func() string {
		if todo, ok := resizing.Decide(s, s.Retry.NotBefore).(verdict.Do[resizing.Action]); ok {
			for _, a := range todo.Actions {
				if e, asks := a.(resizing.Expand); asks {
					return e.Size.String()
				}
			}
		}
		return ""
	}
	if s.Volume != nil {
		about.Log = append(about.Log, telemetry.KeyVolume, s.Volume.Name)
	}
	return about
}

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s resizing.Snapshot, action resizing.Action) (next, error) {
	switch a := action.(type) {
	case resizing.Expand:
		return c.expand(ctx, s, a), nil
	case resizing.RaiseVolume:
		before := s.Volume
		if a.OldSize != "" { // the object has no annotation, or this run has removed it (RZ-D1)
			before = before.DeepCopy()
			delete(before.Annotations, names.AnnPreResizeCapacity)
		}
		return nil, c.Store.PatchVolume(ctx, before, func(pv *corev1.PersistentVolume) {
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
		return nil, c.patchClaim(ctx, s, action, FailOnConflict)
	case resizing.HandToNode, resizing.Finish, resizing.Fail:
		return nil, c.patchClaim(ctx, s, action, ReadOnConflict)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

func (c *Controller) patchClaim(
	ctx context.Context, s resizing.Snapshot, a resizing.Action, on Conflict,
) error {
	return PatchStatus(ctx, c.Store, Write[resizing.Action]{
		Claim: s.Claim, Action: a, Apply: resizing.Apply, Now: c.Clock.Now, On: on,
	})
}

// expand calls the driver, and turns its answer into the next verdict.
func (c *Controller) expand(ctx context.Context, s resizing.Snapshot, a resizing.Expand) next {
	if !c.Driver.Controller { // RZ-X13: the node expands
		return resizing.AfterExpand(s, a, resizing.Answer{Capacity: a.Bytes, OnNode: true})
	}
	answer, err := c.call(ctx, s.Volume, a.Bytes)
	if failure := answer.Failure; failure != nil {
		c.setOffline(s.Claim.UID, resizing.IsInUse(*failure))
	} else {
		c.setOffline(s.Claim.UID, false)
	}
	if err != nil {
		return verdict.Refuse[resizing.Action]{Finding: verdict.Because(verdict.ResizeFailed, "%s", err.Error())}
	}
	v := resizing.AfterExpand(s, a, answer)
	if answer.Failure != nil {
		return verdict.Coded(v, answer.Failure.CodeName())
	}
	return v
}

// call makes one ControllerExpandVolume call. err is not nil if the call could not be made.
func (c *Controller) call(ctx context.Context, pv *corev1.PersistentVolume, bytes int64) (resizing.Answer, error) {
	inTree := objects.IsInTree(pv)
	pv, err := asCSI(pv)
	if err != nil {
		return resizing.Answer{}, err
	}
	what, err := csispec.CapabilityOf(pv, csispec.CapabilityOptions{MultiWriters: c.MultiWriters})
	if err != nil {
		return resizing.Answer{}, err
	}
	request := &csi.ControllerExpandVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
		VolumeCapability: what,
	}
	var ref types.NamespacedName
	if secret := pv.Spec.CSI.ControllerExpandSecretRef; secret != nil {
		ref = types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	}
	var response *csi.ControllerExpandVolumeResponse
	failure := c.caller.Do(ctx, csirpc.Call{
		Method: "ControllerExpandVolume", Volume: pv.Name, Handle: request.GetVolumeId(), Timeout: c.Timeout,
		Secret:   ref,
		Migrated: inTree,
		Send: func(ctx context.Context, secrets map[string]string) (err error) {
			request.Secrets = secrets
			response, err = c.CSI.ControllerExpandVolume(ctx, request)
			return err
		},
	})
	switch {
	case failure == nil:
		return resizing.Answer{Capacity: response.GetCapacityBytes(), OnNode: response.GetNodeExpansionRequired()}, nil
	case failure.Step == csirpc.StepSecret:
		return resizing.Answer{}, fmt.Errorf(
			"the secret %s of PersistentVolume %q for the expansion cannot be read: %w",
			ref,
			pv.Name,
			failure.Cause,
		)
	case !failure.Sent(): // another call for the volume is in flight; the driver has not seen this one
		return resizing.Answer{}, errors.New(failure.Words())
	}
	return resizing.Answer{Failure: failure.Answer()}, nil
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
