package snapshot

import (
	"context"
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// task is what the tasks of both kinds share. It implements reconcile.Task but for Gather.
type task[O requests, C contents, L classes] struct {
	*ControllerConfig
	store
	logKey string
}

// readers are the cache with this process's writes laid over it, and the API server.
func (c *ControllerConfig) readers() kube.Readers {
	return kube.Readers{Cached: c.Cached, Live: c.Live}
}

// Read implements reconcile.Reader.
func (t *task[O, C, L]) Read(
	ctx context.Context, s rules.State[O, C, L], refs []verdict.Ref,
) (rules.State[O, C, L], error) {
	return Read(ctx, t.readers(), s, refs)
}

// Decide implements reconcile.Task.
func (t *task[O, C, L]) Decide(s rules.State[O, C, L], now time.Time) rules.Verdict {
	return rules.DecideSnapshot(s, now)
}

// About implements reconcile.Task.
func (t *task[O, C, L]) About(key types.NamespacedName, s rules.State[O, C, L]) reconcile.About {
	about := reconcile.About{Log: []any{t.logKey, key.String()}}
	if s.Snapshot != nil {
		about.Object = s.Snapshot
	}
	return about
}

// apply does an action that both kinds have.
func (t *task[O, C, L]) apply(
	ctx context.Context, s rules.State[O, C, L], action rules.Action,
) (rules.Verdict, error) {
	switch a := action.(type) {
	case rules.PrepareSnapshot:
		return nil, t.changeNewest(ctx, s.Snapshot, func(o client.Object) {
			addFinalizers(o, a.Finalizers...)
			setClass(o, a.Class)
		})
	case rules.ReleaseSnapshot:
		return nil, t.release(ctx, s.Snapshot, a.Finalizers...)
	case rules.WriteStatus:
		return nil, t.writeStatus(ctx, s.Snapshot, a.Status.SetOn)
	case rules.CreateContent:
		return nil, t.create(ctx, a.Content.(client.Object))
	case rules.BindContent:
		return nil, t.change(ctx, s.Content, func(content client.Object) {
			addFinalizers(content, a.Finalizers...)
			rules.RefOf(content).UID = s.Snapshot.GetUID()
			setClass(content, a.Class)
		})
	case rules.ProtectContent:
		return nil, t.change(ctx, a.Content.(client.Object), func(content client.Object) {
			addFinalizers(content, a.Finalizer)
		})
	case rules.MarkDeleting:
		marked, err := t.annotate(ctx, s.Content, a.Annotation, new("yes"))
		if err != nil {
			return nil, err
		}
		return rules.AfterMark(s, marked.(C)), nil
	case rules.DeleteContent:
		return nil, t.delete(ctx, s.Content)
	default: // of objects of the other kind
		return nil, fmt.Errorf("unknown action %T", action)
	}
}

func setClass(o client.Object, class string) {
	if class != "" {
		*rules.ClassNameOf(o) = &class
	}
}

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key types.NamespacedName) (rules.Snapshot, error) {
	settings := c.Mode
	settings.Groups = c.followsGroups.Load()
	s, err := Gather(ctx, c.Cached, key, settings)
	if err != nil {
		return s, err
	}
	s, err = c.withMemory(ctx, s)
	return c.deleted.withoutRead(key, s), err
}

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s rules.Snapshot, action rules.Action) (rules.Verdict, error) {
	switch a := action.(type) {
	case rules.ProtectClaim:
		return nil, c.updateClaim(ctx, s, addFinalizers)
	case rules.HoldClaim:
		return nil, c.holdClaim(ctx, s)
	case rules.EndHold:
		c.Together.Release(s.Key)
		return nil, nil
	case rules.MarkDeleting:
		if err := c.endRestores(ctx, s); err != nil {
			return nil, err
		}
		return c.apply(ctx, s, action)
	case rules.DeleteContent:
		if a.InMemory {
			return nil, c.deleteInMemory(ctx, s)
		}
		return c.apply(ctx, s, action)
	case rules.ReleaseClaim:
		return nil, client.IgnoreNotFound(c.updateClaim(ctx, s, removeFinalizers))
	default:
		return c.apply(ctx, s, action)
	}
}

// updateClaim changes the finalizer of the claim and replaces it, for which alone there is permission
// (SN-R1).
func (c *Controller) updateClaim(
	ctx context.Context, s rules.Snapshot, change func(client.Object, ...string),
) error {
	c.claimWrites.Lock()
	defer c.claimWrites.Unlock()
	claim, err := c.newest(ctx, s.Claim)
	if err != nil {
		return err
	}
	changed := copyOf(claim)
	if change(changed, names.FinalizerSnapshotClaim); slices.Equal(changed.GetFinalizers(), claim.GetFinalizers()) {
		return nil // another snapshot of the claim was quicker
	}
	if c.Together == nil {
		return wrote(claim, c.writer.Update(ctx, changed))
	}
	// The cache has a part of the claim, which must not replace it.
	patch := kube.DropFinalizerUnchanged(claim, names.FinalizerSnapshotClaim)
	if len(changed.GetFinalizers()) > len(claim.GetFinalizers()) {
		patch = kube.AddFinalizerUnchanged(claim, names.FinalizerSnapshotClaim)
	}
	return wrote(claim, c.writer.Patch(ctx, copyOf(claim), patch))
}

// Gather implements reconcile.Task.
func (g *GroupController) Gather(ctx context.Context, key types.NamespacedName) (rules.Group, error) {
	return GatherGroup(ctx, g.Cached, key, g.Mode)
}

// Apply implements reconcile.Task.
func (g *GroupController) Apply(ctx context.Context, s rules.Group, action rules.Action) (rules.Verdict, error) {
	switch a := action.(type) {
	case rules.CreateMember:
		return nil, g.createMember(ctx, s, a)
	case rules.DeleteMember:
		member := &snapshotv1.VolumeSnapshot{}
		member.Namespace, member.Name = s.Key.Namespace, a.Name
		return nil, client.IgnoreNotFound(g.writer.Delete(ctx, member))
	default:
		return g.apply(ctx, s, action)
	}
}

// createMember makes one member step by step: the VolumeSnapshot, the content that refers to it by
// its uid, the status of the content, the status of the VolumeSnapshot. After a crash the steps that
// were taken are found again, since the names follow from the group and the volume.
func (g *GroupController) createMember(ctx context.Context, s rules.Group, a rules.CreateMember) error {
	vs, err := createOrGet(ctx, g, a.Snapshot.DeepCopy())
	if err != nil {
		return err
	}
	if !hasOwner(vs, s.Snapshot.UID) {
		return fmt.Errorf("VolumeSnapshot %s/%s exists and is no member of the group; delete it", vs.Namespace, vs.Name)
	}
	wanted := a.Content.DeepCopy()
	wanted.Spec.VolumeSnapshotRef.UID = vs.UID
	content, err := createOrGet(ctx, g, wanted)
	if err != nil {
		return err
	}
	if content.Status == nil {
		if err := g.writeStatus(ctx, content, func(o any) {
			o.(*snapshotv1.VolumeSnapshotContent).Status = a.ContentStatus
		}); err != nil {
			return err
		}
	}
	if vs.Status != nil {
		return nil
	}
	return g.writeStatus(ctx, vs, func(o any) { o.(*snapshotv1.VolumeSnapshot).Status = a.SnapshotStatus })
}

// createOrGet creates an object, or reads the one of its name that exists from the API server.
func createOrGet[T client.Object](ctx context.Context, g *GroupController, o T) (T, error) {
	err := g.writer.Create(ctx, o)
	if !apierrors.IsAlreadyExists(err) {
		return o, wrote(o, err)
	}
	found := blank[T]()
	if err := g.Live.Get(ctx, client.ObjectKeyFromObject(o), found); err != nil {
		return o, fmt.Errorf("read %s: %w", describe(o), err)
	}
	g.Cached.Wrote(found)
	return found, nil
}

func hasOwner(o client.Object, uid types.UID) bool {
	return slices.ContainsFunc(
		o.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == uid },
	)
}
