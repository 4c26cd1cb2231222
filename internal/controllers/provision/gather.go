package provision

import (
	"context"
	"time"

	"github.com/purser-csi/purser/internal/kube"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/migration"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

type queue = workqueue.TypedRateLimitingInterface[provision.Key]

// Gather reads the objects around a claim: from the cache, except where a stale cache could lose or
// double a volume.
func (c *Controller) Gather(ctx context.Context, key provision.Key) (provision.Snapshot, error) {
	s := provision.Snapshot{Key: key, Driver: c.Driver, Options: c.Options, HandedOver: c.HandedOver.Has(key.UID)}
	if err := c.Journal.Wait(ctx); err != nil {
		return s, err
	}
	s.Ownership = c.owned.get(key.UID)
	retry := c.retries.Get(key)
	s.Retry = provision.RetryState{Failed: retry.Failed, NotBefore: retry.NotBefore, Inputs: retry.Inputs}
	if pending, ok := c.Journal.Pending(key.UID); ok {
		s.Pending = &pending
	}
	var err error
	if s.Claim, err = c.claimOf(ctx, key, s.Pending); err != nil {
		return s, err
	}
	if s.Volume, s.VolumeUnseen, err = c.volume(ctx, key, s.Pending); err != nil || s.Claim == nil {
		return s, err
	}
	if s.Pending != nil && provision.GotVolume(s) {
		c.finished.add(key.UID)
	}
	if provision.NeedsLiveClaimWithoutVolume(s.Volume, c.finished.has(key.UID)) {
		if s.Claim, err = claimFrom(ctx, c.Live, key); err != nil || s.Claim == nil {
			return s, err
		}
	}
	return c.surroundings(ctx, s)
}

// surroundings reads the class, the selected node, the namespace and the secret.
func (c *Controller) surroundings(ctx context.Context, s provision.Snapshot) (provision.Snapshot, error) {
	var err error
	if name := provision.ClassName(s.Claim); name != "" {
		if s.Class, err = kube.Get(ctx, c.Cached, client.ObjectKey{Name: name}, &storagev1.StorageClass{}); err != nil {
			return s, err
		}
		s = provision.Migrated(s)
	}
	if s, err = c.place(ctx, s); err != nil {
		return s, err
	}
	if s, err = c.readSource(ctx, s); err != nil {
		return s, err
	}
	if s.Namespace, err = c.lookAtNamespace(ctx, provision.NamespaceToRead(s)); err != nil {
		return s, err
	}
	s.Secret, err = c.lookAtSecret(ctx, provision.SecretToRead(s))
	return s, err
}

// lookAtNamespace reads the namespace live: upstream's role may not watch namespaces, and most
// drivers need none (U-51).
func (c *Controller) lookAtNamespace(ctx context.Context, name string) (provision.Namespace, error) {
	if name == "" {
		return provision.Namespace{}, nil
	}
	found, err := kube.Get(ctx, c.Live, client.ObjectKey{Name: name}, &corev1.Namespace{})
	switch {
	case apierrors.IsForbidden(err):
		return provision.Namespace{Access: provision.Forbidden}, nil
	case err != nil || found == nil:
		return provision.Namespace{}, err
	}
	return provision.Namespace{Access: provision.Readable, Labels: found.Labels}, nil
}

// claimOf returns the claim as this process wrote it or as the cache has it, whichever is newer, or
// the live one where that is not fresh enough. From a cache older than the write that gave a node
// back, a volume would be made for that node (C-26).
func (c *Controller) claimOf(
	ctx context.Context,
	key provision.Key,
	pending *intent.Entry,
) (*corev1.PersistentVolumeClaim, error) {
	claim, found, err := c.written.Read(key.NamespacedName, func() (*corev1.PersistentVolumeClaim, bool, error) {
		cached, err := claimFrom(ctx, c.Cached, key)
		return cached, cached != nil, err
	})
	if !found || claim.UID != key.UID {
		claim = nil
	}
	if err != nil || !provision.NeedsLiveClaim(claim, pending) {
		return claim, err
	}
	return claimFrom(ctx, c.Live, key)
}

// claimFrom returns the claim only if it is the very one of the key.
func claimFrom(ctx context.Context, from client.Reader, key provision.Key) (*corev1.PersistentVolumeClaim, error) {
	claim, err := kube.Get(ctx, from, key.NamespacedName, &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil || claim.UID != key.UID {
		return nil, err
	}
	return claim, nil
}

// volume returns the claim's PersistentVolume. unseen reports that the API server has it and the
// cache does not.
func (c *Controller) volume(
	ctx context.Context,
	key provision.Key,
	pending *intent.Entry,
) (pv *corev1.PersistentVolume, unseen bool, err error) {
	name := client.ObjectKey{Name: provision.VolumeName(key, c.Options)}
	if pending != nil {
		name.Name = pending.VolumeName
	}
	newest, _, err := c.Volumes.Read(name, func() (*corev1.PersistentVolume, bool, error) {
		cached, err := kube.Get(ctx, c.Cached, name, &corev1.PersistentVolume{})
		return cached, cached != nil, err
	})
	if err != nil {
		return nil, false, err
	}
	pv = newest
	if provision.NeedsLiveVolume(newest, pending, c.finished.has(key.UID)) {
		if pv, err = kube.Get(ctx, c.Live, name, &corev1.PersistentVolume{}); err != nil {
			return nil, false, err
		}
	}
	unseen = pv != nil && newest == nil
	pv, err = migration.ToCSI(pv)
	return pv, unseen, err
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s provision.Snapshot, now time.Time) verdict.Verdict[provision.Action] {
	return provision.Decide(s, now)
}

// About implements reconcile.Task.
func (c *Controller) About(key provision.Key, s provision.Snapshot) reconcile.About {
	about := reconcile.About{
		Log:    []any{telemetry.KeyClaim, key.String(), telemetry.KeyVolume, provision.VolumeName(key, c.Options)},
		Inputs: func() string { return provision.Inputs(s) },
	}
	if s.Claim != nil {
		about.Object = s.Claim
		about.Log = append(about.Log, telemetry.KeyClass, provision.ClassName(s.Claim))
		if node := s.Claim.Annotations[names.AnnSelectedNode]; node != "" {
			about.Log = append(about.Log, telemetry.KeyNode, node)
		}
		if size, ok := s.Claim.Spec.Resources.Requests[corev1.ResourceStorage]; ok { // O-31
			about.Log = append(about.Log, telemetry.KeySize, size.String())
		}
	}
	return about
}
