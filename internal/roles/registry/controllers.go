package registry

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/controllers/binder"
	"github.com/purser-csi/purser/internal/controllers/ephemeral"
	"github.com/purser-csi/purser/internal/controllers/expand"
	"github.com/purser-csi/purser/internal/controllers/protection"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/world"
)

// The controllers, by the names that kube-controller-manager has for them (10).
const (
	NameBinder           = "persistentvolume-binder-controller"
	NameClaimProtection  = "persistentvolumeclaim-protection-controller"
	NameVolumeProtection = "persistentvolume-protection-controller"
	NameClassProtection  = "volumeattributesclass-protection-controller"
	NameExpand           = "persistentvolume-expander-controller"
	NameEphemeral        = "ephemeral-volume-controller"
	NameAttachDetach     = "persistentvolume-attach-detach-controller"
)

// All returns the controllers. They are added in this order.
func All() []Controller {
	return append(
		append([]Controller{volumeBinder()}, protections()...), expander(), ephemeralVolumes(), attachDetach(),
	)
}

func volumeBinder() Controller {
	return Controller{
		Alias: "persistentvolume-binder",
		Entry: Entry{
			Name: NameBinder, Component: "persistentvolume-controller",
			Grants: append(readsPairs(),
				Grant{"", "pods", read},
				Grant{"", "persistentvolumes", write},
				Grant{"", "persistentvolumes/status", write},
				Grant{"", "persistentvolumeclaims", write},
				Grant{"", "persistentvolumeclaims/status", write},
				Grant{"storage.k8s.io", "storageclasses", read}),
			Fields: pairsAnd(podFields),
		},
		Add: addBinder,
	}
}

func protections() []Controller {
	return []Controller{
		{
			Alias: "pvc-protection",
			Entry: Entry{
				Name: NameClaimProtection, Component: "pvc-protection-controller",
				Grants: append(readsPairs(),
					Grant{"", "pods", read},
					Grant{"", "persistentvolumeclaims", write},
					Grant{"", "persistentvolumeclaims/status", write}),
				Fields: pairsAnd(podFields),
			},
			Add: func(ctx context.Context, p Parts, events reconcile.Recorder) error {
				cfg := protectionConfig(p, events)
				return errors.Join(protection.NewClaims(cfg).AddTo(ctx, p.Manager), protection.NewUnused(cfg).AddTo(ctx, p.Manager))
			},
		},
		{
			Alias: "pv-protection",
			Entry: Entry{
				Name: NameVolumeProtection, Component: "pv-protection-controller",
				Grants: append(readsPairs(), Grant{"", "persistentvolumes", write}),
				Fields: pairsAnd(),
			},
			Add: func(ctx context.Context, p Parts, events reconcile.Recorder) error {
				return protection.NewVolumes(protectionConfig(p, events)).AddTo(ctx, p.Manager)
			},
		},
		{
			Alias: "volumeattributesclass-protection",
			Entry: Entry{
				Name: NameClassProtection, Component: "volumeattributesclass-protection-controller",
				Grants: append(readsPairs(),
					Grant{"storage.k8s.io", "volumeattributesclasses", append(append([]string(nil), read...), "patch")}),
				Needs:  storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"),
				Absent: "the API server does not serve VolumeAttributesClasses, which therefore are not protected",
				Fields: pairsAnd(classFields),
			},
			Add: func(ctx context.Context, p Parts, events reconcile.Recorder) error {
				return protection.NewClasses(protectionConfig(p, events)).AddTo(ctx, p.Manager)
			},
		},
	}
}

func expander() Controller {
	return Controller{
		Alias: "persistentvolume-expander",
		Entry: Entry{
			Name: NameExpand, Component: "volume_expand",
			Grants: append(readsPairs(), Grant{"", "persistentvolumeclaims/status", write}),
			Fields: pairsAnd(),
		},
		Add: func(ctx context.Context, p Parts, events reconcile.Recorder) error {
			return expand.New(expand.Config{
				Cached: p.Manager.GetClient(), Writer: p.Manager.GetClient(), Settings: p.Settings(events),
			}).AddTo(ctx, p.Manager)
		},
	}
}

func ephemeralVolumes() Controller {
	return Controller{
		Alias: "ephemeral-volume",
		Entry: Entry{
			Name: NameEphemeral, Component: "ephemeral_volume",
			Grants: append(readsPairs(),
				Grant{"", "pods", read},
				Grant{"", "persistentvolumeclaims", []string{"create"}},
				// A claim that blocks the deletion of its pod needs this where
				// OwnerReferencesPermissionEnforcement is on.
				Grant{"", "pods/finalizers", []string{"update"}}),
			Fields: pairsAnd(podFields),
		},
		Add: func(ctx context.Context, p Parts, events reconcile.Recorder) error {
			return ephemeral.New(ephemeral.Config{
				Cached: p.Manager.GetClient(), Live: p.Manager.GetAPIReader(), Writer: p.Manager.GetClient(),
				Created: telemetry.NewEphemeral(p.Metrics), Settings: p.Settings(events),
			}).AddTo(ctx, p.Manager)
		},
	}
}

// readsPairs are the grants that every controller has: it reads claims and volumes.
func readsPairs() []Grant {
	return []Grant{{"", "persistentvolumes", read}, {"", "persistentvolumeclaims", read}}
}

// podFields are which claims a pod names, where it runs or why it does not, and how far it is.
var podFields = kube.Reads(func(from, to *corev1.Pod) {
	pod := *from
	if _, err := kube.TrimPod(&pod); err == nil {
		to.Spec.NodeName, to.Spec.Volumes = pod.Spec.NodeName, pod.Spec.Volumes
		to.Status.Phase, to.Status.Conditions = pod.Status.Phase, pod.Status.Conditions
	}
})

// classFields are the driver and the finalizers of a VolumeAttributesClass.
var classFields = kube.Reads(func(from, to *storagev1.VolumeAttributesClass) {
	to.DriverName, to.Finalizers = from.DriverName, from.Finalizers
})

func addBinder(ctx context.Context, p Parts, events reconcile.Recorder) error {
	cfg := binder.Config{
		Live: p.Manager.GetAPIReader(), Writer: p.Manager.GetClient(), Settings: p.Settings(events),
		Measures:   telemetry.NewBinding(p.Metrics),
		AuditEvery: binder.DefaultAudit,
	}
	if p.Queue != nil {
		cfg.HandOver = p.Queue
	}
	if p.ClaimProtection {
		cfg.Pods = func(claim *corev1.PersistentVolumeClaim) ([]string, error) {
			return world.ClaimReferrers(ctx, p.Manager.GetClient(), claim)
		}
	}
	controller := binder.New(cfg)
	if p.Queue != nil {
		p.Queue.OnChange(controller.Recheck)
	}
	return controller.AddTo(ctx, p.Manager)
}

func protectionConfig(p Parts, events reconcile.Recorder) protection.Config {
	cfg := protection.Config{
		Cached: p.Manager.GetClient(), Live: p.Manager.GetAPIReader(), Writer: p.Manager.GetClient(),
		Status:   p.Manager.GetClient().Status(),
		Settings: p.Settings(events),
	}
	if p.Queue != nil {
		cfg.Together = p.Queue.Drivers
	}
	return cfg
}
