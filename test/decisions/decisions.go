package decisions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/attachdetach"
	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/attacher"
	"github.com/purser-csi/purser/internal/binder"
	binding "github.com/purser-csi/purser/internal/binder/rules"
	capacities "github.com/purser-csi/purser/internal/capacity"
	ephemerals "github.com/purser-csi/purser/internal/ephemeral"
	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
	"github.com/purser-csi/purser/internal/kube"

	"github.com/purser-csi/purser/internal/objects"
	protecting "github.com/purser-csi/purser/internal/protection"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	provisioning "github.com/purser-csi/purser/internal/provision"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	reclaiming "github.com/purser-csi/purser/internal/reclaim"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/resize"

	resizing "github.com/purser-csi/purser/internal/resize/rules"

	"github.com/purser-csi/purser/internal/snapshot"
	"github.com/purser-csi/purser/internal/sources"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Views are what the decisions read.
type Views struct {
	kube.Readers // of `plane`, whose cache holds trimmed objects
	// Sidecars is the cache of the driver's other sidecars, which holds whole objects, as that of the
	// published capacities does.
	Sidecars client.Reader
}

// SidecarIndexes are those that the decisions need in [Views.Sidecars].
func SidecarIndexes() []kube.Index {
	return slices.Concat(attacher.Indexes(), snapshot.Indexes(), snapshot.ContentIndexes(), capacities.Indexes())
}

// Indexes are those that the decisions need in [Views.Cached] for one driver.
func Indexes(driver string) []kube.Index {
	return slices.Concat(
		attachdetach.Indexes(), sources.Indexes(),
		ephemerals.Indexes(), protecting.ClaimIndexes(), protecting.UsageIndexes(),
		protecting.ClassIndexes(), binder.Indexes(),
		provisioning.Indexes(), resize.Indexes(),
		resize.AttributesIndexes(), reclaiming.Indexes(reclaim.Driver{Name: driver, Controller: capabilities}),
	)
}

var capabilities = map[csi.ControllerServiceCapability_RPC_Type]bool{
	csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:     true,
	csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: true,
	csi.ControllerServiceCapability_RPC_CLONE_VOLUME:             true,
	csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT:   true,
}

// OverDump returns views of a list of objects with all indexes.
func OverDump(ctx context.Context, scheme *runtime.Scheme, objects []client.Object, driver string) (Views, error) {
	plane, err := kube.NewDump(scheme, objects...)
	if err != nil {
		return Views{}, err
	}
	sidecars, err := kube.NewDump(scheme, objects...)
	return Views{kube.Readers{Cached: plane, Live: plane}, sidecars}, errors.Join(err,
		kube.AddIndexes(ctx, plane, Indexes(driver)...), kube.AddIndexes(ctx, sidecars, SidecarIndexes()...))
}

// Of returns what fresh processes decide about each object, by decision and object.
func Of(ctx context.Context, from Views, all []client.Object, driver string, now time.Time) map[string]string {
	r := run{ctx: ctx, from: from, driver: driver, now: now, found: map[string]string{}}
	for _, o := range all {
		switch o := o.(type) {
		case *corev1.PersistentVolumeClaim:
			r.claim(o)
		case *corev1.PersistentVolume:
			r.volume(o)
		case *storagev1.VolumeAttributesClass:
			r.class(o)
		case *storagev1.VolumeAttachment:
			r.attachment(o)
		case *snapshotv1.VolumeSnapshot:
			r.snapshot(o)
		case *snapshotv1.VolumeSnapshotContent:
			r.content(o)
		case *corev1.Pod:
			for _, volume := range ephemeral.Volumes(o) {
				key := ephemeral.Key{Namespace: o.Namespace, Pod: o.Name, UID: o.UID, Volume: volume}
				s, err := ephemerals.Gather(ctx, from.Cached, key)
				note(r, "ephemeral volume "+volume, o, ephemeral.Decide(s), err)
			}
		}
	}
	r.capacities(all)
	return r.found
}

type run struct {
	ctx    context.Context //nolint:containedctx // it lives for one call
	from   Views
	driver string
	now    time.Time
	found  map[string]string
}

// decision is what decides about a snapshot, and what reads for it.
type decision[S, A any] struct {
	decide func(S) verdict.Verdict[A]
	read   func(context.Context, client.Reader, S, []verdict.Ref) (S, error)
}

// decided notes the verdict about what was gathered, once the decision has read what it asks for.
func decided[S, A any](
	r run, what string, o client.Object, gathered S, err error, by decision[S, A],
) {
	var v verdict.Verdict[A]
	if err == nil {
		_, v, err = verdict.Settle(gathered, by.decide, func(s S, refs []verdict.Ref) (S, error) {
			return by.read(r.ctx, r.from.Cached, s, refs)
		})
	}
	note(r, what, o, v, err)
}

// note writes a verdict down: its kind, its reason with the words, and the kinds of its actions.
func note[A any](r run, what string, o client.Object, v verdict.Verdict[A], err error) {
	key := what + " " + strings.TrimPrefix(client.ObjectKeyFromObject(o).String(), "/")
	if err != nil {
		r.found[key] = "error: " + err.Error()
		return
	}
	kind, _, _ := strings.Cut(fmt.Sprintf("%T", v), "[")
	said := []string{fmt.Sprintf("%s %s: %s", kind, v.Because().Reason, v.Because().Text())}
	if todo, ok := v.(verdict.Do[A]); ok {
		for _, action := range todo.Actions {
			said = append(said, fmt.Sprintf("%T", action))
		}
	}
	r.found[key] = strings.Join(said, "; ")
}

func (r run) claim(o *corev1.PersistentVolumeClaim) {
	key := kube.KeyOf(o)
	for memory, m := range map[string]protecting.Memory{
		"": {}, ", answered": {Answer: &protecting.PodAnswer{Version: "1"}, Asked: r.now},
	} {
		s, err := protecting.GatherClaim(r.ctx, r.from.Cached, m, key)
		note(r, "protect claim"+memory, o, protection.DecideClaim(s, r.now), err)
	}
	usage, err := protecting.GatherUsage(r.ctx, r.from.Cached, key)
	note(r, "use of claim", o, protection.DecideUnused(usage, r.now), err)
	grown, err := resize.GatherExpansion(r.ctx, r.from.Cached, resizing.Key{
		NamespacedName: key.NamespacedName, UID: key.UID, Size: resizing.Wish(o),
	})
	note(r, "expand claim", o, resizing.DecideExpansion(grown), err)
	bound := objects.ClaimKey{NamespacedName: key.NamespacedName, UID: key.UID}
	resized, err := resize.Gather(r.ctx, r.from.Cached, bound, resize.Memory{
		Driver: resizing.Driver{Name: r.driver, Controller: true}, OfflineOnly: true,
	})
	decided(r, "resize claim", o, resized, err, decision[resizing.Snapshot, resizing.Action]{
		func(s resizing.Snapshot) resizing.Verdict { return resizing.Decide(s, r.now) }, resize.Read,
	})
	modified, err := resize.GatherAttributes(r.ctx, r.from.Cached, bound, resize.AttributesMemory{
		Driver: resizing.AttributesDriver{Name: r.driver, Modifies: true},
	})
	decided(r, "modify claim", o, modified, err, decision[resizing.AttributesSnapshot, resizing.AttributesAction]{
		func(s resizing.AttributesSnapshot) resizing.AttributesVerdict {
			return resizing.DecideAttributes(s, r.now)
		}, resize.ReadAttributes,
	})
	same := provision.Key{NamespacedName: key.NamespacedName, UID: key.UID}
	reader := provisioning.Reader{Readers: r.from.Readers}
	made, err := reader.Gather(r.ctx, provision.Snapshot{
		Key: same, Driver: provision.Driver{
			Name: r.driver, Controller: capabilities, HasTopology: true,
			Plugin: map[csi.PluginCapability_Service_Type]bool{csi.PluginCapability_Service_CONTROLLER_SERVICE: true},
		},
		Options: provision.Options{NamePrefix: "pvc", NameUUIDLength: -1},
	})
	decided(r, "provision claim", o, made, err, decision[provision.Snapshot, provision.Action]{
		func(s provision.Snapshot) provision.Verdict { return provision.Decide(s, r.now) },
		func(
			ctx context.Context, _ client.Reader, s provision.Snapshot, refs []verdict.Ref,
		) (provision.Snapshot, error) {
			return reader.Read(ctx, s, refs)
		},
	})
	r.binding("bind claim", o, binding.Key{Claim: key.NamespacedName})
	r.source(o, source.Ref{Kind: source.KindClaim, NamespacedName: key.NamespacedName})
}

func (r run) class(o *storagev1.VolumeAttributesClass) {
	s, err := protecting.GatherClass(r.ctx, r.from.Cached, kube.KeyOf(o))
	var decided protection.Verdict
	if err == nil {
		_, decided, err = verdict.Settle(
			s, func(s protection.Class) protection.Verdict { return protection.DecideClass(s, r.now) },
			func(s protection.Class, refs []verdict.Ref) (protection.Class, error) {
				var err error
				s.LiveUsers, err = protecting.ReadUsers(r.ctx, r.from.Live, refs[0].Name)
				return s, err
			},
		)
	}
	note(r, "protect class", o, decided, err)
}

func (r run) volume(o *corev1.PersistentVolume) {
	s, err := protecting.GatherVolume(r.ctx, r.from.Cached, kube.KeyOf(o))
	note(r, "protect volume", o, protection.DecideVolume(s, r.now), err)
	reader := reclaiming.Reader{
		Readers: r.from.Readers, Driver: reclaim.Driver{Name: r.driver, Controller: capabilities},
	}
	reclaimed, err := reader.Gather(r.ctx, o.Name)
	var decided reclaim.Verdict
	if err == nil {
		_, decided, err = verdict.Settle(reclaimed,
			func(s reclaim.Snapshot) reclaim.Verdict { return reclaim.Decide(s, r.now) },
			func(s reclaim.Snapshot, refs []verdict.Ref) (reclaim.Snapshot, error) {
				return reader.Read(r.ctx, s, refs)
			})
	}
	note(r, "reclaim volume", o, decided, err)
	r.binding("bind volume", o, binding.KeyOf(o))
	if key, ok := attachment.KeyOfVolume(o); ok {
		r.attaching("attach-detach volume", o, key)
	}
}

// binding notes what is decided over the objects alone, and once the API server has been asked.
func (r run) binding(what string, o client.Object, key binding.Key) {
	for asked, m := range map[string]binder.Memory{
		"": {}, ", asked": {ClaimAsked: true, Asked: func(string) bool { return true }},
	} {
		s, err := binder.Gather(r.ctx, r.from.Cached, key, m)
		note(r, what+asked, o, binding.Decide(s), err)
	}
}
