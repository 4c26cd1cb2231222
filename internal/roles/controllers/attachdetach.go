package controllers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/attachdetach"
	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/registry"
)

// attachDetach returns the row of the attach-detach controller.
func attachDetach(p *Parts) registry.Controller {
	return registry.Controller{
		Alias: "attachdetach",
		Name:  NameAttachDetach, Component: "attachdetach-controller",
		Grants: append(readsPairs(),
			registry.Grant{Group: "", Resource: "pods", Verbs: read},
			registry.Grant{Group: "", Resource: "nodes", Verbs: read},
			registry.Grant{Group: "", Resource: "nodes/status", Verbs: []string{"patch"}},
			registry.Grant{Group: "storage.k8s.io", Resource: "csidrivers", Verbs: read},
			registry.Grant{
				Group: "storage.k8s.io", Resource: "volumeattachments",
				Verbs: append(slices.Clone(read), "create", "delete", "patch"),
			}),
		Fields: pairsAnd(kube.AttachedVolumeFields, kube.PodFields, attachedPodFields, nodeFields, attachmentFields),
		Add: func(ctx context.Context, settings reconcile.Settings) error {
			return attachdetach.New(attachdetach.Config{
				Cached: p.Cached, Live: p.Manager.GetAPIReader(), Writer: p.Writer,
				Settings:  settings,
				Rules:     attachment.Rules{ForceAfter: p.ForceDetachAfter, AuditEvery: attachdetach.DefaultAudit},
				InProcess: p.Attachments,
				Metrics:   p.Registry,
			}).AddTo(ctx, p.Manager)
		},
	}
}

// oneRunning stands for the containers of a pod of which at least one runs. It is shared and must
// not be changed.
var oneRunning = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}

// attachedPodFields are the age of a pod, whether a container runs, and the volumes of in-tree plugins
// that it names in place.
var attachedPodFields = kube.Reads(func(from, to *corev1.Pod) {
	to.CreationTimestamp = from.CreationTimestamp
	for i := range from.Spec.Volumes {
		if v := &from.Spec.Volumes[i]; objects.IsInline(v) {
			to.Spec.Volumes = append(to.Spec.Volumes, *v)
		}
	}
	if attachment.HasRunning(from) {
		to.Status.ContainerStatuses = oneRunning
	}
})

// nodeFields are whether the controller manages the node, whether it is ready or out of service,
// and its volumes.
var nodeFields = kube.Reads(func(from, to *corev1.Node) {
	for _, taint := range from.Spec.Taints {
		if taint.Key == names.TaintOutOfService {
			to.Spec.Taints = []corev1.Taint{{Key: taint.Key, Effect: taint.Effect}}
		}
	}
	for i := range from.Status.Conditions {
		if c := &from.Status.Conditions[i]; c.Type == corev1.NodeReady {
			to.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	to.Status.VolumesAttached, to.Status.VolumesInUse = from.Status.VolumesAttached, from.Status.VolumesInUse
}, names.AnnManagedAttach)

// attachmentFields are what a VolumeAttachment is for and how far it is. One that is deleted without
// finalizers is gone at once ([kube.Overlay]).
var attachmentFields = kube.Reads(func(from, to *storagev1.VolumeAttachment) {
	if handle, ok := from.Annotations[names.AnnVolumeHandle]; ok {
		to.Annotations = map[string]string{names.AnnVolumeHandle: handle}
	}
	to.Finalizers = from.Finalizers
	to.Spec = from.Spec
	to.Status = storagev1.VolumeAttachmentStatus{
		Attached: from.Status.Attached, AttachError: from.Status.AttachError, DetachError: from.Status.DetachError,
	}
})
