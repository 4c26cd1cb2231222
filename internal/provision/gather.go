package provision

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/sources"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/topology"
)

const (
	// IndexProvisionedClass finds the unbound claims of a StorageClass.
	IndexProvisionedClass = "class"
	// IndexProvisioner finds the unbound claims that were given to a driver.
	IndexProvisioner = "driver"
)

// Indexes are the indexes of the controller that provisions. They enqueue claims; the
// gather itself needs none.
func Indexes() []kube.Index {
	unbound := func(field string, value func(*corev1.PersistentVolumeClaim) []string) kube.Index {
		return kube.IndexBy(field, func(claim *corev1.PersistentVolumeClaim) []string {
			if claim.Spec.VolumeName != "" { // as nearly all have one
				return nil
			}
			return value(claim)
		})
	}
	return []kube.Index{
		unbound(IndexProvisionedClass, func(claim *corev1.PersistentVolumeClaim) []string {
			return []string{objects.ClaimClass(claim)}
		}),
		unbound(IndexProvisioner, provision.RequestedDrivers),
	}
}

// ClaimMemory is the state of this process about one claim, beyond the API objects.
type ClaimMemory struct {
	Driver  provision.Driver
	Options provision.Options
	// HandedOver says that the binder in this process asks for the volume.
	HandedOver bool
	Pending    *intent.Entry // of the journal; nil for none
	Retry      provision.RetryState
	Ownership  provision.Ownership
	// Provisioned says that this process has provisioned the volume of the claim.
	Provisioned bool
	// Claims and Volumes are this process's own writes; nil for none.
	Claims  *kube.OwnWrites[*corev1.PersistentVolumeClaim]
	Volumes *kube.OwnWrites[*corev1.PersistentVolume]
	// Nodes returns what read returned last for as long as no node has changed; nil reads each time.
	Nodes func(read func() ([]topology.Node, error)) ([]topology.Node, error)
	// Shared are live reads that claims share which wait for one object; nil for none.
	Shared SharedReads
}

// SharedReads are live reads of what claims are refused for.
type SharedReads interface {
	// Source returns a recent state of the source for which the claim is refused too, or what read
	// returns.
	Source(ctx context.Context, claim *corev1.PersistentVolumeClaim, ref source.Ref,
		isRefused func(source.State) bool, read func() (source.State, error)) (source.State, error)
	// Failures returns a reader that repeats recent failures to read a secret, a namespace or a
	// VolumeAttributesClass.
	Failures(claim *corev1.PersistentVolumeClaim, from client.Reader) client.Reader
}

// Gather gathers the inputs of the decision about a claim that wants a volume: from the
// cache, except where a stale cache could lose or double a volume.
func Gather(
	ctx context.Context, from kube.Readers, key provision.Key, m ClaimMemory,
) (provision.Snapshot, error) {
	s := provision.Snapshot{
		Key: key, Driver: m.Driver, Options: m.Options, HandedOver: m.HandedOver,
		Ownership: m.Ownership, Retry: m.Retry, Pending: m.Pending,
	}
	var err error
	if s.Claim, err = provisionedClaim(ctx, from, key, m); err != nil {
		return s, err
	}
	if s.Volume, s.VolumeUnseen, err = provisionedVolume(ctx, from, key, m); err != nil || s.Claim == nil {
		return s, err
	}
	if provision.NeedsLiveClaimWithoutVolume(s.Volume, m.Provisioned) {
		if s.Claim, err = ClaimOf(ctx, from.Live, key); err != nil || s.Claim == nil {
			return s, err
		}
	}
	return provisioningInputs(ctx, from, s, m)
}

// ClaimOf reads the very claim of the key; nil for none.
func ClaimOf(ctx context.Context, from client.Reader, key provision.Key) (*corev1.PersistentVolumeClaim, error) {
	same := kube.Key{NamespacedName: key.NamespacedName, UID: key.UID}
	return kube.GetSame(ctx, from, same, &corev1.PersistentVolumeClaim{})
}

// provisionedClaim returns the claim as this process wrote it or as the cache has it, whichever is
// newer, or the live one where that is not fresh enough. From a cache older than the write that gave
// a node back, a volume would be made for that node (C-26).
func provisionedClaim(
	ctx context.Context, from kube.Readers, key provision.Key, m ClaimMemory,
) (*corev1.PersistentVolumeClaim, error) {
	claim, found, err := m.Claims.Read(key.NamespacedName, func() (*corev1.PersistentVolumeClaim, bool, error) {
		cached, err := ClaimOf(ctx, from.Cached, key)
		return cached, cached != nil, err
	})
	if !found || claim.UID != key.UID {
		claim = nil
	}
	if err != nil || !provision.NeedsLiveClaim(claim, m.Pending) {
		return claim, err
	}
	return ClaimOf(ctx, from.Live, key)
}

// provisionedVolume returns the claim's PersistentVolume. unseen reports that the API server has it
// and the cache does not.
func provisionedVolume(
	ctx context.Context, from kube.Readers, key provision.Key, m ClaimMemory,
) (pv *corev1.PersistentVolume, unseen bool, err error) {
	name := client.ObjectKey{Name: provision.VolumeName(key, m.Options)}
	if m.Pending != nil {
		name.Name = m.Pending.VolumeName
	}
	newest, err := kube.ReadOwn(ctx, from.Cached, m.Volumes, name, &corev1.PersistentVolume{})
	if err != nil {
		return nil, false, err
	}
	pv = newest
	if provision.NeedsLiveVolume(newest, m.Pending, m.Provisioned) {
		if pv, err = kube.Get(ctx, from.Live, name, &corev1.PersistentVolume{}); err != nil {
			return nil, false, err
		}
	}
	unseen = pv != nil && newest == nil
	pv, err = objects.ToCSI(pv)
	return pv, unseen, err
}

// provisioningInputs reads the inputs of the request: the class, the selected node, the source,
// the namespace and the secret.
func provisioningInputs(
	ctx context.Context, from kube.Readers, s provision.Snapshot, m ClaimMemory,
) (provision.Snapshot, error) {
	var err error
	if name := objects.ClaimClass(s.Claim); name != "" {
		if s.Class, err = kube.Get(
			ctx, from.Cached, client.ObjectKey{Name: name}, &storagev1.StorageClass{},
		); err != nil {
			return s, err
		}
		s = provision.Migrated(s)
	}
	if s, err = places(ctx, from, s, m); err != nil {
		return s, err
	}
	// The objects below are read live: upstream's role may not watch them, and few claims need them.
	if s.Source, err = sourceOf(ctx, from.Live, s, m.Shared); err != nil {
		return s, err
	}
	live := from.Live
	if m.Shared != nil {
		live = m.Shared.Failures(s.Claim, live)
	}
	if name := provision.AttributesClassToRead(s); name != "" {
		if s.Attributes, err = attributesClass(ctx, live, name); err != nil {
			return s, err
		}
	}
	if s.Namespace, err = readNamespace(ctx, live, provision.NamespaceToRead(s)); err != nil {
		return s, err
	}
	s.Secret, err = readSecret(ctx, live, provision.SecretToRead(s))
	return s, err
}

// sourceOf reads the source of the claim; the zero value for none.
func sourceOf(
	ctx context.Context, live client.Reader, s provision.Snapshot, shared SharedReads,
) (source.State, error) {
	ref := provision.SourceToRead(s)
	if ref.IsNone() {
		return source.State{}, nil
	}
	read := func() (source.State, error) { return sources.ReadFor(ctx, live, ref, s.Key.Namespace) }
	if shared == nil {
		return read()
	}
	isRefused := func(state source.State) bool {
		s.Source = state
		return provision.IsSourceRefused(s)
	}
	return shared.Source(ctx, s.Claim, ref, isRefused, read)
}

func attributesClass(ctx context.Context, from client.Reader, name string) (provision.AttributesClass, error) {
	class := &storagev1.VolumeAttributesClass{}
	err := from.Get(ctx, client.ObjectKey{Name: name}, class)
	switch {
	case err == nil:
		return provision.AttributesClass{Access: provision.Readable, Class: class}, nil
	case apierrors.IsForbidden(err):
		return provision.AttributesClass{Access: provision.Forbidden}, nil
	case kube.IsUnserved(err):
		return provision.AttributesClass{Unserved: true}, nil
	case apierrors.IsNotFound(err):
		return provision.AttributesClass{Access: provision.Missing}, nil
	}
	return provision.AttributesClass{}, err
}

// namespace reads the labels of a namespace; most drivers need none (U-51).
func readNamespace(ctx context.Context, from client.Reader, name string) (provision.Namespace, error) {
	if name == "" {
		return provision.Namespace{}, nil
	}
	found, err := kube.Get(ctx, from, client.ObjectKey{Name: name}, &corev1.Namespace{})
	switch {
	case apierrors.IsForbidden(err):
		return provision.Namespace{Access: provision.Forbidden}, nil
	case err != nil || found == nil:
		return provision.Namespace{}, err
	}
	return provision.Namespace{Access: provision.Readable, Labels: found.Labels}, nil
}

// secret reads the version of a secret, before anything with an effect is done (C-62).
func readSecret(ctx context.Context, from client.Reader, ref types.NamespacedName) (provision.Secret, error) {
	if ref.Name == "" {
		return provision.Secret{}, nil
	}
	version, err := kube.SecretVersion(ctx, from, ref)
	read, err := SecretAccess(ref, err)
	read.Version = version
	return read, err
}

// SecretAccess returns the state of a secret by the error of its read. An error that may pass by
// itself is returned.
func SecretAccess(ref types.NamespacedName, err error) (provision.Secret, error) {
	switch {
	case err == nil:
		return provision.Secret{Access: provision.Readable}, nil
	case apierrors.IsNotFound(err):
		return provision.Secret{Access: provision.Missing}, nil
	case apierrors.IsForbidden(err):
		return provision.Secret{Access: provision.Forbidden, Refusal: err.Error()}, nil
	}
	return provision.Secret{}, fmt.Errorf("read secret %q: %w", ref, err)
}

// places reads the nodes that the request depends on, when the driver has topology.
func places(
	ctx context.Context, from kube.Readers, s provision.Snapshot, m ClaimMemory,
) (provision.Snapshot, error) {
	if m.Options.Node.Name != "" {
		s.Node, s.CSINode, s.Nodes = provision.NodeObjects(m.Options.Node, m.Driver.Name)
		return s, nil
	}
	if !m.Driver.HasTopology {
		return s, nil
	}
	var err error
	if node := s.Claim.Annotations[names.AnnSelectedNode]; node != "" {
		key := client.ObjectKey{Name: node}
		if s.Node, err = cachedOrLive(ctx, from, key, &corev1.Node{}); err != nil {
			return s, err
		}
		if s.CSINode, err = cachedOrLive(ctx, from, key, &storagev1.CSINode{}); err != nil {
			return s, err
		}
	}
	if !provision.NeedsNodes(s) {
		return s, nil
	}
	read := func() ([]topology.Node, error) { return registeredNodes(ctx, from.Cached, m.Driver.Name) }
	if m.Nodes == nil {
		s.Nodes, err = read()
		return s, err
	}
	s.Nodes, err = m.Nodes(read)
	return s, err
}

// cachedOrLive reads an object that the cache does not have from the API server: the scheduler may
// know a new node before this cache, and the selection of a node that is gone is removed.
func cachedOrLive[T client.Object](ctx context.Context, from kube.Readers, key client.ObjectKey, into T) (T, error) {
	var none T
	found, err := kube.Get(ctx, from.Cached, key, into)
	if err != nil || any(found) != any(none) {
		return found, err
	}
	return kube.Get(ctx, from.Live, key, into)
}

// registeredNodes reads the nodes on which the driver is registered.
func registeredNodes(ctx context.Context, from client.Reader, driver string) ([]topology.Node, error) {
	var csiNodes storagev1.CSINodeList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&csiNodes, &nodes} {
		if err := from.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("nodes of the driver: %w", err)
		}
	}
	labels := make(map[string]map[string]string, len(nodes.Items))
	for i := range nodes.Items {
		labels[nodes.Items[i].Name] = nodes.Items[i].Labels
	}
	return topology.Survey(csiNodes.Items, func(node string) map[string]string { return labels[node] }, driver), nil
}
