package controllers

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/purser-csi/purser/internal/binder"
	"github.com/purser-csi/purser/internal/ephemeral"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/protection"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/resize"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/telemetry"
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

// Parts are what the controllers are built from, besides the settings of all of them.
type Parts struct {
	*sidecar.Sidecar
	Queue *handoff.Queue // to the provisioner in the same process; nil for none
	// TracksUse is set if the condition Unused of claims is kept up to date: the protection of
	// claims runs in the same process, and [GateUnusedSince] is on.
	TracksUse bool
	// Attachments connects with the attachers in the same process; nil for none.
	Attachments *handoff.Attachments
	// Snapshots is what a snapshot-controller in the same process knows; nil for none.
	Snapshots *handoff.Snapshots
	// ForceDetachAfter is how long an unhealthy node may report an unwanted volume in use; 0 for
	// ever.
	ForceDetachAfter time.Duration
}

// All returns the controllers. They are added in this order. The parts are read when a controller
// is added.
func All(p *Parts) []registry.Controller {
	return append(
		append([]registry.Controller{volumeBinder(p)}, protections(p)...), expander(p), ephemeralVolumes(p),
		attachDetach(p),
	)
}

// Names returns the names of all controllers, sorted.
func Names() []string {
	var all []string
	for _, c := range All(nil) {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return all
}

// currentName returns the name of a controller that is given by its name or by an older one; an
// unknown name stays as it is.
func currentName(name string) string {
	for _, c := range All(nil) {
		if c.Alias == name {
			return c.Name
		}
	}
	return name
}

var read, write = registry.Read, registry.Write

func volumeBinder(p *Parts) registry.Controller {
	return registry.Controller{
		Alias: "persistentvolume-binder",
		Name:  NameBinder, Component: "persistentvolume-controller",
		Grants: append(readsPairs(),
			registry.Grant{Group: "", Resource: "pods", Verbs: read},
			registry.Grant{Group: "", Resource: "persistentvolumes", Verbs: write},
			registry.Grant{Group: "", Resource: "persistentvolumes/status", Verbs: write},
			registry.Grant{Group: "", Resource: "persistentvolumeclaims", Verbs: write},
			registry.Grant{Group: "", Resource: "persistentvolumeclaims/status", Verbs: write},
			registry.Grant{Group: "storage.k8s.io", Resource: "storageclasses", Verbs: read}),
		Fields: pairsAnd(kube.PodFields),
		Add:    func(ctx context.Context, settings reconcile.Settings) error { return addBinder(ctx, p, settings) },
	}
}

func protections(p *Parts) []registry.Controller {
	return []registry.Controller{
		{
			Alias: "pvc-protection",
			Name:  NameClaimProtection, Component: "pvc-protection-controller",
			Grants: append(readsPairs(),
				registry.Grant{Group: "", Resource: "pods", Verbs: read},
				registry.Grant{Group: "", Resource: "persistentvolumeclaims", Verbs: write},
				registry.Grant{Group: "", Resource: "persistentvolumeclaims/status", Verbs: write}),
			Fields: pairsAnd(kube.PodFields),
			Add: func(ctx context.Context, settings reconcile.Settings) error {
				cfg := protectionConfig(p, settings)
				err := p.protectSources(ctx, &cfg)
				err = errors.Join(err, protection.NewClaims(cfg).AddTo(ctx, p.Manager))
				if p.TracksUse {
					err = errors.Join(err, protection.NewUnused(cfg).AddTo(ctx, p.Manager))
				}
				return err
			},
		},
		{
			Alias: "pv-protection",
			Name:  NameVolumeProtection, Component: "pv-protection-controller",
			Grants: append(readsPairs(), registry.Grant{Group: "", Resource: "persistentvolumes", Verbs: write}),
			Fields: pairsAnd(),
			Add: func(ctx context.Context, settings reconcile.Settings) error {
				return protection.NewVolumes(protectionConfig(p, settings)).AddTo(ctx, p.Manager)
			},
		},
		{
			Alias: "volumeattributesclass-protection",
			Name:  NameClassProtection, Component: "volumeattributesclass-protection-controller",
			Grants: append(readsPairs(),
				registry.Grant{
					Group: "storage.k8s.io", Resource: "volumeattributesclasses",
					Verbs: append(append([]string(nil), read...), "patch"),
				}),
			Needs:  []schema.GroupVersionKind{storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass")},
			Absent: "the API server does not serve VolumeAttributesClasses, which therefore are not protected",
			Fields: pairsAnd(classFields),
			Add: func(ctx context.Context, settings reconcile.Settings) error {
				return protection.NewClasses(protectionConfig(p, settings)).AddTo(ctx, p.Manager)
			},
		},
	}
}

func expander(p *Parts) registry.Controller {
	return registry.Controller{
		Alias: "persistentvolume-expander",
		Name:  NameExpand, Component: "volume_expand",
		Grants: append(readsPairs(), registry.Grant{
			Group: "", Resource: "persistentvolumeclaims/status", Verbs: write,
		}),
		Fields: pairsAnd(),
		Add: func(ctx context.Context, settings reconcile.Settings) error {
			return resize.NewExpansion(resize.ExpansionConfig{
				Cached: p.Cached, Writer: p.Writer, Settings: settings,
			}).AddTo(ctx, p.Manager)
		},
	}
}

func ephemeralVolumes(p *Parts) registry.Controller {
	return registry.Controller{
		Alias: "ephemeral-volume",
		Name:  NameEphemeral, Component: "ephemeral_volume",
		Grants: append(readsPairs(),
			registry.Grant{Group: "", Resource: "pods", Verbs: read},
			registry.Grant{Group: "", Resource: "persistentvolumeclaims", Verbs: []string{"create"}},
			// A claim that blocks the deletion of its pod needs this where
			// OwnerReferencesPermissionEnforcement is on.
			registry.Grant{Group: "", Resource: "pods/finalizers", Verbs: []string{"update"}}),
		Fields: pairsAnd(kube.PodFields),
		Add: func(ctx context.Context, settings reconcile.Settings) error {
			return ephemeral.New(ephemeral.Config{
				Cached: p.Cached, Live: p.Manager.GetAPIReader(), Writer: p.Writer,
				Created: telemetry.NewEphemeral(p.Registry), Settings: settings,
			}).AddTo(ctx, p.Manager)
		},
	}
}

// readsPairs are the grants that every controller has: it reads claims and volumes.
func readsPairs() []registry.Grant {
	return []registry.Grant{
		registry.Allow("", "persistentvolumes", read...), registry.Allow("", "persistentvolumeclaims", read...),
	}
}

// pairsAnd returns the fields that every controller reads, those of claims and volumes, and its
// own.
func pairsAnd(own ...*kube.Fields) []*kube.Fields {
	return append(slices.Clone(kube.PairFields), own...)
}

// classFields are the driver and the finalizers of a VolumeAttributesClass.
var classFields = kube.Reads(func(from, to *storagev1.VolumeAttributesClass) {
	to.DriverName, to.Finalizers = from.DriverName, from.Finalizers
})

func addBinder(ctx context.Context, p *Parts, settings reconcile.Settings) error {
	cfg := binder.Config{
		Live: p.Manager.GetAPIReader(), Writer: p.Writer, Settings: settings,
		Measures:   telemetry.NewBinding(p.Registry),
		AuditEvery: binder.DefaultAudit,
	}
	if p.Queue != nil {
		cfg.HandOver = p.Queue
	}
	if p.TracksUse {
		cfg.Pods = func(claim *corev1.PersistentVolumeClaim) ([]string, error) {
			return protection.ClaimReferrers(ctx, p.Cached, claim)
		}
	}
	controller := binder.New(cfg)
	if p.Queue != nil {
		p.Queue.OnChange(controller.Recheck)
	}
	return controller.AddTo(ctx, p.Manager)
}

func protectionConfig(p *Parts, settings reconcile.Settings) protection.Config {
	cfg := protection.Config{
		Cached: p.Cached, Live: p.Manager.GetAPIReader(), Writer: p.Writer,
		Settings: settings,
	}
	if p.Queue != nil {
		cfg.ColocatedDrivers = p.Queue.Drivers
	}
	return cfg
}
