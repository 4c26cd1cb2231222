package registry

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/controllers/attachdetach"
	"github.com/purser-csi/purser/internal/core/attachment"
	"github.com/purser-csi/purser/internal/core/migration"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// attachDetach returns the entry of the attach-detach controller.
func attachDetach() Controller {
	return Controller{
		Alias: "attachdetach",
		Entry: Entry{
			Name: NameAttachDetach, Component: "attachdetach-controller",
			Grants: append(readsPairs(),
				Grant{"", "pods", read},
				Grant{"", "nodes", read},
				Grant{"", "nodes/status", []string{"patch"}},
				Grant{"storage.k8s.io", "csidrivers", read},
				Grant{"storage.k8s.io", "volumeattachments", append(slices.Clone(read), "create", "delete", "patch")}),
			Fields: pairsAnd(kube.AttachedVolumeFields, podFields, attachedPodFields, nodeFields, attachmentFields),
		},
		Add: func(ctx context.Context, p Parts, events reconcile.Recorder) error {
			return attachdetach.New(attachdetach.Config{
				Cached: p.Manager.GetClient(), Live: p.Manager.GetAPIReader(), Writer: p.Manager.GetClient(),
				Settings: p.Settings(events),
				Rules:    attachment.Rules{ForceAfter: p.ForceDetachAfter}, AuditEvery: attachdetach.DefaultAudit,
				Together: p.Attachments,
				Metrics:  p.Metrics,
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
		if v := &from.Spec.Volumes[i]; migration.IsInline(v) {
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

// attachmentFields are what a VolumeAttachment is for and how far it is.
var attachmentFields = kube.Reads(func(from, to *storagev1.VolumeAttachment) {
	if handle, ok := from.Annotations[names.AnnVolumeHandle]; ok {
		to.Annotations = map[string]string{names.AnnVolumeHandle: handle}
	}
	to.Spec = from.Spec
	to.Status = storagev1.VolumeAttachmentStatus{
		Attached: from.Status.Attached, AttachError: from.Status.AttachError, DetachError: from.Status.DetachError,
	}
})
