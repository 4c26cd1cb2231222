package snapshot

import (
	"context"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// withMemory adds what the roles of this process know of a VolumeSnapshot.
func (c *Controller) withMemory(ctx context.Context, s rules.Snapshot) (rules.Snapshot, error) {
	if c.Together == nil {
		return s, nil
	}
	restores := c.Together.Restores()
	if s.Snapshot == nil {
		c.Together.Release(s.Key)
		if restores != nil {
			restores.Forget(s.Key)
		}
		return s, nil
	}
	s.HoldsSince, s.MayHold = c.Together.Protects()
	s.Held = c.Together.IsHeld(s.Key, s.Snapshot.UID)
	if s.Content == nil || s.Snapshot.DeletionTimestamp == nil {
		return s, nil
	}
	s.Deleting = c.Together.IsDeleting(s.Content.UID)
	if restores == nil || s.Content.Spec.Driver != s.Together {
		return s, nil
	}
	users, err := restores.Users(ctx, s.Key, rules.Handle(s.Content, s.Together))
	s.Restoring = append(s.Restoring, users...)
	return s, err
}

// fromRestores enqueues a VolumeSnapshot when a provisioner in this process has ended a call that used it.
func (c *Controller) fromRestores(_ context.Context, q queue) error {
	c.Together.OnRestored(func(vs types.NamespacedName) { q.Add(vs) })
	return nil
}

// holdClaim keeps the source in memory, or by its finalizer if the protection of claims does not lead in
// this process any more. A claim that is being deleted can get no finalizer.
func (c *Controller) holdClaim(ctx context.Context, s rules.Snapshot) error {
	claim := handoff.SourceClaim{NamespacedName: client.ObjectKeyFromObject(s.Claim), UID: s.Claim.UID}
	if c.Together.Hold(s.Key, s.Snapshot.UID, claim) || s.Claim.DeletionTimestamp != nil {
		return nil
	}
	return c.updateClaim(ctx, s, addFinalizers)
}

// endRestores returns when no volume can be restored from the VolumeSnapshot any more, whose content is
// about to be deleted.
func (c *Controller) endRestores(ctx context.Context, s rules.Snapshot) error {
	restores := c.Together.Restores()
	if restores == nil || s.Content.Spec.Driver != s.Together {
		return nil
	}
	ended, err := restores.LetGo(ctx, s.Key, s.Snapshot.UID, rules.Handle(s.Content, s.Together))
	if err == nil && !ended {
		err = fmt.Errorf("a volume is being restored from VolumeSnapshot %s", s.Key)
	}
	return err
}

// deleteInMemory deletes the content after the csi-snapshotter in this process knows it. If the response
// is an error, the next run marks the content in the API server.
func (c *Controller) deleteInMemory(ctx context.Context, s rules.Snapshot) error {
	if err := c.endRestores(ctx, s); err != nil {
		return err
	}
	c.Together.SetDeleting(s.Content.UID, true)
	err := c.deleteUnchanged(ctx, s.Content)
	if err != nil {
		c.Together.SetDeleting(s.Content.UID, false)
	}
	return err
}

// marked returns a content with the annotation that a content of the API server would have, if it is being
// deleted with its VolumeSnapshot.
func marked[C contents](together *handoff.Snapshots, content C) C {
	if !together.IsDeleting(content.GetUID()) {
		return content
	}
	with := copyOf(content).(C)
	metav1.SetMetaDataAnnotation(metaOf(with), names.AnnSnapshotBeingDeleted, "yes")
	return with
}

// metaOf returns the metadata of a content of a VolumeSnapshot. Groups are not in this memory.
func metaOf(content any) *metav1.ObjectMeta {
	if single, is := content.(*snapshotv1.VolumeSnapshotContent); is {
		return &single.ObjectMeta
	}
	return &metav1.ObjectMeta{}
}

// checkSource returns an error while the source of a first call may go: the snapshot-controller in this
// process has not protected it yet, as after a change of the leader.
func (c *ContentController[C, L]) checkSource(ctx context.Context, content client.Object) error {
	if c.Together == nil {
		return nil
	}
	key, uid := refOf(content), rules.RefOf(content).UID
	vs, err := get[*snapshotv1.VolumeSnapshot](ctx, c.Cached, key)
	if err != nil || vs == nil || vs.UID != uid || c.Together.IsHeld(key, uid) {
		return err
	}
	name := types.NamespacedName{Namespace: key.Namespace, Name: rules.SourceClaim(vs)}
	claim, err := get[*corev1.PersistentVolumeClaim](ctx, c.Cached, name)
	if err != nil || claim == nil || claim.DeletionTimestamp != nil ||
		slices.Contains(claim.Finalizers, names.FinalizerSnapshotClaim) {
		return err
	}
	return fmt.Errorf("claim %s is not protected yet for VolumeSnapshot %s", name, key)
}

// SourceIndexes are those of [SourceUsers]. The protection of claims adds them by itself, so they are not
// among [Indexes].
func SourceIndexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(indexProtectedSource, func(vs *snapshotv1.VolumeSnapshot) []string {
			return unlessEmpty(rules.SourceClaim(vs))
		}),
	}
}

// SourceUsers returns the VolumeSnapshots that are being taken of a claim, as the cache has them: those that
// are not ready and have a content. What this process holds in memory is not among them.
func SourceUsers(
	ctx context.Context, cached client.Reader, claim *corev1.PersistentVolumeClaim,
) (users []string, err error) {
	all, err := list[*snapshotv1.VolumeSnapshot](
		ctx, cached, client.InNamespace(claim.Namespace), client.MatchingFields{indexProtectedSource: claim.Name},
	)
	if err != nil {
		return nil, err
	}
	for _, vs := range all {
		if !rules.NeedsClaim(vs) {
			continue
		}
		content, err := get[*snapshotv1.VolumeSnapshotContent](
			ctx, cached, types.NamespacedName{Name: rules.ContentName(vs)},
		)
		if err != nil {
			return nil, err
		}
		if content != nil && !ptr.Deref(readyOf(content), false) {
			users = append(users, vs.Name)
		}
	}
	return users, nil
}

func readyOf(content *snapshotv1.VolumeSnapshotContent) *bool {
	if content.Status == nil {
		return nil
	}
	return content.Status.ReadyToUse
}
