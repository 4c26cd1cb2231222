package provision

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/sources"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/internal/verdict"
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

// Reader reads snapshots. Without the optional parts it reads as a fresh process does.
type Reader struct {
	kube.Readers
	// Nodes returns what read returned last for as long as no node has changed; nil reads each time.
	Nodes func(read func() ([]topology.Node, error)) ([]topology.Node, error)
	// Shared are live reads that claims share which wait for one object; nil for none.
	Shared SharedReads
	// Snapshots reads VolumeSnapshots and their contents from the informer cache, as far as the process
	// has it; nil for live reads.
	Snapshots client.Reader
}

// SharedReads are live reads of what claims are refused for.
type SharedReads interface {
	// Source returns what read returns, or a recent state of the source for which another claim was
	// refused; isShared says which.
	Source(ctx context.Context, claim *corev1.PersistentVolumeClaim, ref source.Ref,
		read func() (source.State, error)) (state source.State, isShared bool, err error)
	// Failures returns a reader that repeats recent failures to read a secret, a namespace or a
	// VolumeAttributesClass.
	Failures(claim *corev1.PersistentVolumeClaim, from client.Reader) client.Reader
}

// Gather returns the snapshot with the claim, its volume, its class and its selected node as the cache
// has them. s has the key, the driver, the options and what this process knows of the claim.
func (r Reader) Gather(ctx context.Context, s provision.Snapshot) (provision.Snapshot, error) {
	var err error
	if s.Claim, err = ClaimOf(ctx, r.Cached, s.Key); err != nil {
		return s, err
	}
	pv, err := kube.Get(ctx, r.Cached, client.ObjectKey{Name: volumeName(s)}, &corev1.PersistentVolume{})
	if err != nil {
		return s, err
	}
	if s.Volume, err = objects.ToCSI(pv); err != nil {
		return s, err
	}
	return r.around(ctx, s)
}

// ClaimOf reads the very claim of the key; nil for none.
func ClaimOf(ctx context.Context, from client.Reader, key provision.Key) (*corev1.PersistentVolumeClaim, error) {
	same := kube.Key{NamespacedName: key.NamespacedName, UID: key.UID}
	return kube.GetSame(ctx, from, same, &corev1.PersistentVolumeClaim{})
}

func volumeName(s provision.Snapshot) string {
	if s.Pending != nil {
		return s.Pending.VolumeName
	}
	return provision.VolumeName(s.Key, s.Options)
}

// around returns the snapshot with what the claim names and the cache has: the class and the selected
// node, when the driver has topology.
func (r Reader) around(ctx context.Context, s provision.Snapshot) (provision.Snapshot, error) {
	s.Class, s.Node, s.CSINode, s.InTree, s.Untranslated = nil, nil, nil, "", ""
	if s.Claim == nil {
		return s, nil
	}
	var err error
	if name := objects.ClaimClass(s.Claim); name != "" {
		s.Class, err = kube.Get(ctx, r.Cached, client.ObjectKey{Name: name}, &storagev1.StorageClass{})
		if err != nil {
			return s, err
		}
		s = provision.Migrated(s)
	}
	if s.Options.Node.Name != "" {
		s.Node, s.CSINode, s.Nodes = provision.NodeObjects(s.Options.Node, s.Driver.Name)
		return s.With(verdict.Ref{What: provision.ReadNodes}), nil
	}
	if node := s.Claim.Annotations[names.AnnSelectedNode]; node != "" && s.Driver.HasTopology {
		return readNode(ctx, r.Cached, s, node)
	}
	return s, nil
}

// readNode returns the snapshot with the Node and the CSINode that it does not have yet.
func readNode(
	ctx context.Context, from client.Reader, s provision.Snapshot, name string,
) (provision.Snapshot, error) {
	var err error
	key := client.ObjectKey{Name: name}
	if s.Node == nil {
		if s.Node, err = kube.Get(ctx, from, key, &corev1.Node{}); err != nil {
			return s, err
		}
	}
	if s.CSINode == nil {
		s.CSINode, err = kube.Get(ctx, from, key, &storagev1.CSINode{})
	}
	return s, err
}

// Read returns the snapshot with what a decision asked for.
func (r Reader) Read(
	ctx context.Context, s provision.Snapshot, refs []verdict.Ref,
) (provision.Snapshot, error) {
	now := s.With(refs...)
	for _, ref := range refs {
		var err error
		if now, err = r.read(ctx, now, ref); err != nil {
			return s, err
		}
	}
	return now, nil
}

func (r Reader) read(ctx context.Context, s provision.Snapshot, ref verdict.Ref) (provision.Snapshot, error) {
	var err error
	switch ref.What {
	case provision.ReadVolume:
		return r.liveVolume(ctx, s, ref.Name)
	case provision.ReadClaim, provision.ReadClaimToOwn:
		if s.Claim, err = ClaimOf(ctx, r.Live, s.Key); err != nil {
			return s, err
		}
		return r.around(ctx, s)
	case provision.ReadNode:
		return readNode(ctx, r.Live, s, ref.Name)
	case provision.ReadNodes:
		s.Nodes, err = r.nodes(ctx, s.Driver.Name)
	case provision.ReadSource, provision.ReadLiveSource, provision.ReadOwnSource:
		s.Source, s.SourceShared, err = r.source(ctx, s, ref.What)
	case provision.ReadAttributes:
		s.Attributes, err = attributesClass(ctx, r.failing(s), ref.Name)
	case provision.ReadNamespace:
		s.Namespace, err = readNamespace(ctx, r.failing(s), ref.Name)
	case provision.ReadSecret:
		name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		s.Secret, err = readSecret(ctx, r.failing(s), name)
	default:
		err = fmt.Errorf("no provisioner reads %s; this is a bug of Purser, please report it", ref)
	}
	return s, err
}

// liveVolume returns the snapshot with the live PersistentVolume of the claim.
func (r Reader) liveVolume(ctx context.Context, s provision.Snapshot, name string) (provision.Snapshot, error) {
	pv, err := kube.Get(ctx, r.Live, client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
	if err != nil {
		return s, err
	}
	s.VolumeUnseen = pv != nil && s.Volume == nil
	s.Volume, err = objects.ToCSI(pv)
	return s, err
}

// failing returns the reader of objects for which claims may wait.
func (r Reader) failing(s provision.Snapshot) client.Reader {
	if r.Shared == nil {
		return r.Live
	}
	return r.Shared.Failures(s.Claim, r.Live)
}

// source reads the source of the claim: from the cache, by a read of its own or by one that claims share.
// A claim is read live, since the cache drops most of a bound one, and so are ReferenceGrants.
func (r Reader) source(
	ctx context.Context, s provision.Snapshot, what string,
) (state source.State, isShared bool, err error) {
	ref := source.Of(s.Claim)
	if r.Snapshots != nil && what == provision.ReadSource && ref.IsSnapshot() &&
		ref.Namespace == s.Claim.Namespace {
		state, err = sources.Read(ctx, r.Snapshots, ref)
		state.Cached = true
		return state, false, err
	}
	read := func() (source.State, error) { return sources.ReadFor(ctx, r.Live, ref, s.Key.Namespace) }
	if what == provision.ReadOwnSource || r.Shared == nil {
		state, err = read()
		return state, false, err
	}
	return r.Shared.Source(ctx, s.Claim, ref, read)
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

// readNamespace reads the labels of a namespace; most drivers need none (U-51).
func readNamespace(ctx context.Context, from client.Reader, name string) (provision.Namespace, error) {
	found, err := kube.Get(ctx, from, client.ObjectKey{Name: name}, &corev1.Namespace{})
	switch {
	case apierrors.IsForbidden(err):
		return provision.Namespace{Access: provision.Forbidden}, nil
	case err != nil || found == nil:
		return provision.Namespace{}, err
	}
	return provision.Namespace{Access: provision.Readable, Labels: found.Labels}, nil
}

// readSecret reads the version of a secret, before anything with an effect is done (C-62).
func readSecret(ctx context.Context, from client.Reader, ref types.NamespacedName) (provision.Secret, error) {
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

// nodes returns the nodes on which the driver is registered.
func (r Reader) nodes(ctx context.Context, driver string) ([]topology.Node, error) {
	read := func() ([]topology.Node, error) { return registeredNodes(ctx, r.Cached, driver) }
	if r.Nodes == nil {
		return read()
	}
	return r.Nodes(read)
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
