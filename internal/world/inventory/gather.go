package inventory

import (
	"context"
	"slices"
	"strings"
	"sync"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/purser-csi/purser/internal/core/attachment"
	"github.com/purser-csi/purser/internal/core/attributes"
	"github.com/purser-csi/purser/internal/core/binding"
	"github.com/purser-csi/purser/internal/core/explain"
	"github.com/purser-csi/purser/internal/core/names"
	keys "github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/publishing"
	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/core/resizing"
	"github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/core/topology"
	"github.com/purser-csi/purser/internal/world"
	"github.com/purser-csi/purser/internal/world/dump"
)

// gatherer implements [explain.Gatherer] over the objects of a cluster. It is for one goroutine.
type gatherer struct {
	cluster *explain.Cluster
	objects func() []client.Object
	dumps   map[string]*indexedDump
}

// indexedDump are the objects with the indexes of one gather.
type indexedDump struct {
	reader *dump.Reader
	nodes  func() ([]topology.Node, error) // with the driver of a provisioner, read once
	err    error
}

// prepare completes a cluster whose lists are filled.
func prepare(c *explain.Cluster) *explain.Cluster {
	c.Gather = gatherer{c, sync.OnceValue(func() []client.Object { return objectsOf(c) }), map[string]*indexedDump{}}
	return c.Prepare()
}

// objectsOf returns the objects that gathers read. A secret has only its name.
func objectsOf(c *explain.Cluster) []client.Object {
	all := slices.Concat(
		objects(c.Claims), objects(c.Volumes), objects(c.Classes), objects(c.AttributesClasses), objects(c.Nodes),
		objects(c.CSINodes), objects(c.CSIDrivers), objects(c.Attachments), objects(c.Namespaces), objects(c.Pods),
		objects(c.Snapshots), objects(c.Contents), objects(c.SnapshotClasses),
	)
	for _, grant := range c.Grants {
		if o, ok := grant.(client.Object); ok {
			all = append(all, o)
		}
	}
	for _, name := range c.Secrets {
		secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace,
			Name:      name.Name,
		}}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		all = append(all, secret)
	}
	return all
}

func objects[T client.Object](list []T) (all []client.Object) {
	for _, o := range list {
		all = append(all, o)
	}
	return all
}

// with returns the objects with the indexes of a gather, which are built once for each name.
func (g gatherer) with(name string, indexes ...world.Index) *indexedDump {
	d := g.dumps[name]
	if d != nil {
		return d
	}
	d = &indexedDump{}
	g.dumps[name] = d
	if d.reader, d.err = dump.New(Scheme(), g.objects()...); d.err == nil {
		d.err = world.AddIndexes(context.Background(), d.reader, indexes...)
	}
	return d
}

// gather reads a snapshot, and notes the kinds that it needs and that were not read.
func gather[S any](
	g gatherer, from *indexedDump, read func(world.Readers) (S, error),
) (s S, unread []explain.Kind, err error) {
	if from.err != nil {
		return s, nil, from.err
	}
	noted := &noting{Reader: from.reader, cluster: g.cluster}
	s, err = read(world.Readers{Cached: noted, Live: noted})
	return s, noted.unread, err
}

// Binding implements [explain.Gatherer].
func (g gatherer) Binding(key binding.Key) (binding.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("binding", world.BindingIndexes()...), func(from world.Readers) (binding.Snapshot, error) {
		return world.ReadBinding(context.Background(), from.Live, key, world.BindingMemory{
			ClaimAsked: true, Asked: func(string) bool { return true },
		})
	})
}

// Provisioning implements [explain.Gatherer].
func (g gatherer) Provisioning(
	key provision.Key, driver provision.Driver, o provision.Options,
) (provision.Snapshot, []explain.Kind, error) {
	d := g.with("driver "+driver.Name, world.ReclaimIndexes(reclaim.Driver{
		Name:       driver.Name,
		Controller: driver.Controller,
	})...)
	memory := world.ProvisioningMemory{Driver: driver, Options: o, HandedOver: true}
	memory.Nodes = func(read func() ([]topology.Node, error)) ([]topology.Node, error) {
		if d.nodes == nil {
			d.nodes = sync.OnceValues(read)
		}
		return d.nodes()
	}
	return gather(g, d, func(from world.Readers) (provision.Snapshot, error) {
		return world.Provisioning(context.Background(), from, key, memory)
	})
}

// Reclaim implements [explain.Gatherer].
func (g gatherer) Reclaim(volume string, driver reclaim.Driver) (reclaim.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("driver "+driver.Name, world.ReclaimIndexes(driver)...),
		func(from world.Readers) (reclaim.Snapshot, error) {
			return world.Reclaim(context.Background(), from, volume, world.ReclaimMemory{
				Now:    g.cluster.Now,
				Driver: driver,
			})
		})
}

// Resizing implements [explain.Gatherer].
func (g gatherer) Resizing(key keys.ClaimKey, driver resizing.Driver) (resizing.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("binding", world.BindingIndexes()...), func(from world.Readers) (resizing.Snapshot, error) {
		return world.Resizing(context.Background(), from.Live, key, world.ResizingMemory{Driver: driver})
	})
}

// Modification implements [explain.Gatherer].
func (g gatherer) Modification(
	key keys.ClaimKey, driver attributes.Driver,
) (attributes.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("binding", world.BindingIndexes()...), func(from world.Readers) (attributes.Snapshot, error) {
		return world.Modification(context.Background(), from.Live, key, world.ModificationMemory{Driver: driver})
	})
}

// Attachment implements [explain.Gatherer]. A name that was replaced in the dump has another hash than
// the names of its objects, so each name that is a hash is taken for the right one.
func (g gatherer) Attachment(key attachment.Key) (attachment.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("attachment", world.AttachmentIndexes()...), func(from world.Readers) (attachment.Snapshot, error) {
		s, err := world.Attachment(context.Background(), from.Live, key, world.AttachmentMemory{})
		for _, va := range s.Attachments {
			if names.IsAttachmentName(va.Name) {
				va.Name = names.AttachmentName(key.Handle, key.Driver, va.Spec.NodeName)
			}
		}
		return s, err
	})
}

// Publishing implements [explain.Gatherer].
func (g gatherer) Publishing(
	va *storagev1.VolumeAttachment, driver publishing.Driver,
) (publishing.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("publishing", world.PublishingIndexes()...), func(from world.Readers) (publishing.Snapshot, error) {
		return world.Publishing(context.Background(), from.Live, va, world.PublishingMemory{Driver: driver})
	})
}

// Snapshot implements [explain.Gatherer].
func (g gatherer) Snapshot(key types.NamespacedName) (snapshotting.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("snapshot", world.SnapshotIndexes()...), func(from world.Readers) (snapshotting.Snapshot, error) {
		return world.Snapshot(context.Background(), from, key, world.SnapshotMemory{})
	})
}

// Content implements [explain.Gatherer].
func (g gatherer) Content(
	content *snapshotv1.VolumeSnapshotContent, o snapshotting.ContentSettings,
) (snapshotting.ContentSnapshot, []explain.Kind, error) {
	return gather(g, g.with("snapshot", world.SnapshotIndexes()...),
		func(from world.Readers) (snapshotting.ContentSnapshot, error) {
			return world.SnapshotContent(context.Background(), from.Live, content, o)
		})
}

// noting is a dump that notes which of the kinds that are asked for were not read.
type noting struct {
	*dump.Reader
	cluster *explain.Cluster
	unread  []explain.Kind
}

// Get implements client.Reader.
func (n *noting) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	n.note(into)
	return n.Reader.Get(ctx, key, into, opts...)
}

// List implements client.Reader.
func (n *noting) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	n.note(into)
	return n.Reader.List(ctx, into, opts...)
}

func (n *noting) note(o runtime.Object) {
	of, err := apiutil.GVKForObject(o, Scheme())
	kind := explain.Kind(strings.TrimSuffix(of.Kind, "List"))
	if _, unread := n.cluster.Unread[kind]; err == nil && unread && !slices.Contains(n.unread, kind) {
		n.unread = append(n.unread, kind)
	}
}
