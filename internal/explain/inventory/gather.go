package inventory

import (
	"context"
	"slices"
	"strings"
	"sync"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/purser-csi/purser/internal/attachdetach"
	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/attacher"
	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/binder"
	binding "github.com/purser-csi/purser/internal/binder/rules"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/kube"

	"github.com/purser-csi/purser/internal/names"
	keys "github.com/purser-csi/purser/internal/objects"
	provisioning "github.com/purser-csi/purser/internal/provision"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	reclaiming "github.com/purser-csi/purser/internal/reclaim"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/resize"

	resizing "github.com/purser-csi/purser/internal/resize/rules"

	"github.com/purser-csi/purser/internal/snapshot"
	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/internal/verdict"
)

// gatherer implements [explain.Gatherer] over the objects of a cluster. It is for one goroutine.
type gatherer struct {
	cluster *explain.Cluster
	objects func() (*kube.Dump, error) // without indexes
	dumps   map[string]*indexedDump
}

// indexedDump are the objects with the indexes of one gather.
type indexedDump struct {
	reader *kube.Dump
	nodes  func() ([]topology.Node, error) // with the driver of a provisioner, read once
	err    error
}

// prepare completes a cluster whose lists are filled.
func prepare(c *explain.Cluster) *explain.Cluster {
	all := sync.OnceValues(func() (*kube.Dump, error) { return kube.NewDump(Scheme(), objectsOf(c)...) })
	c.Gather = gatherer{c, all, map[string]*indexedDump{}}
	return c.Prepare()
}

// objectsOf returns the objects that gathers read. A secret has only its name.
func objectsOf(c *explain.Cluster) []client.Object {
	all := slices.Concat(
		objects(c.Claims), objects(c.Volumes), objects(c.Classes), objects(c.AttributesClasses), objects(c.Nodes),
		objects(c.CSINodes), objects(c.CSIDrivers), objects(c.Attachments), objects(c.Namespaces), objects(c.Pods),
		objects(c.Snapshots), objects(c.Contents), objects(c.SnapshotClasses), objects(c.GroupSnapshots),
		objects(c.GroupContents), objects(c.GroupClasses),
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
func (g gatherer) with(name string, indexes ...kube.Index) *indexedDump {
	d := g.dumps[name]
	if d != nil {
		return d
	}
	d = &indexedDump{}
	g.dumps[name] = d
	var all *kube.Dump
	if all, d.err = g.objects(); d.err == nil {
		d.reader = all.WithoutIndexes()
		d.err = kube.AddIndexes(context.Background(), d.reader, indexes...)
	}
	return d
}

// gather reads a snapshot, and notes the kinds that it needs and that were not read.
func gather[S any](
	g gatherer, from *indexedDump, read func(kube.Readers) (S, error),
) (s S, unread []explain.Kind, err error) {
	if from.err != nil {
		return s, nil, from.err
	}
	noted := &noting{Dump: from.reader, cluster: g.cluster}
	s, err = read(kube.Readers{Cached: noted, Live: noted})
	return s, noted.unread, err
}

// settled returns the snapshot with what the decision asks for.
func settled[S, A any](
	s S, decide func(S) verdict.Verdict[A], read func(S, []verdict.Ref) (S, error),
) (S, error) {
	s, _, err := verdict.Settle(s, decide, read)
	return s, err
}

// Binding implements [explain.Gatherer].
func (g gatherer) Binding(key binding.Key) (binding.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("binding", binder.Indexes()...), func(from kube.Readers) (binding.Snapshot, error) {
		return binder.Gather(context.Background(), from.Live, key, binder.Memory{
			ClaimAsked: true, Asked: func(string) bool { return true },
		})
	})
}

// Provisioning implements [explain.Gatherer].
func (g gatherer) Provisioning(
	key provision.Key, driver provision.Driver, o provision.Options,
) (provision.Snapshot, []explain.Kind, error) {
	d := g.with("driver "+driver.Name, reclaiming.Indexes(reclaim.Driver{
		Name:       driver.Name,
		Controller: driver.Controller,
	})...)
	nodes := func(read func() ([]topology.Node, error)) ([]topology.Node, error) {
		if d.nodes == nil {
			d.nodes = sync.OnceValues(read)
		}
		return d.nodes()
	}
	return gather(g, d, func(from kube.Readers) (provision.Snapshot, error) {
		reader := provisioning.Reader{Readers: from, Nodes: nodes}
		s, err := reader.Gather(context.Background(), provision.Snapshot{
			Key: key, Driver: driver, Options: o, HandedOver: true,
		})
		if err != nil {
			return s, err
		}
		return settled(s, func(s provision.Snapshot) provision.Verdict { return provision.Decide(s, g.cluster.Now) },
			func(s provision.Snapshot, refs []verdict.Ref) (provision.Snapshot, error) {
				return reader.Read(context.Background(), s, refs)
			})
	})
}

// Reclaim implements [explain.Gatherer].
func (g gatherer) Reclaim(volume string, driver reclaim.Driver) (reclaim.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("driver "+driver.Name, reclaiming.Indexes(driver)...),
		func(from kube.Readers) (reclaim.Snapshot, error) {
			reader := reclaiming.Reader{Readers: from, Driver: driver}
			s, err := reader.Gather(context.Background(), volume)
			if err != nil {
				return s, err
			}
			return settled(
				s, func(s reclaim.Snapshot) reclaim.Verdict { return reclaim.Decide(s, g.cluster.Now) },
				func(s reclaim.Snapshot, refs []verdict.Ref) (reclaim.Snapshot, error) {
					return reader.Read(context.Background(), s, refs)
				},
			)
		})
}

// Resizing implements [explain.Gatherer].
func (g gatherer) Resizing(key keys.ClaimKey, driver resizing.Driver) (resizing.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("binding", binder.Indexes()...), func(from kube.Readers) (resizing.Snapshot, error) {
		return resize.Gather(context.Background(), from.Live, key, resize.Memory{Driver: driver})
	})
}

// Modification implements [explain.Gatherer].
func (g gatherer) Modification(
	key keys.ClaimKey, driver resizing.AttributesDriver,
) (resizing.AttributesSnapshot, []explain.Kind, error) {
	return gather(g, g.with("binding", binder.Indexes()...),
		func(from kube.Readers) (resizing.AttributesSnapshot, error) {
			s, err := resize.GatherAttributes(
				context.Background(), from.Live, key, resize.AttributesMemory{Driver: driver},
			)
			if err != nil {
				return s, err
			}
			return settled(s, func(s resizing.AttributesSnapshot) resizing.AttributesVerdict {
				return resizing.DecideAttributes(s, g.cluster.Now)
			}, func(s resizing.AttributesSnapshot, refs []verdict.Ref) (resizing.AttributesSnapshot, error) {
				return resize.ReadAttributes(context.Background(), from.Live, s, refs)
			})
		})
}

// Attachment implements [explain.Gatherer]. A name that was replaced in the dump has another hash
// than the names of its objects, so each name that is a hash is taken for the right one.
func (g gatherer) Attachment(key attachment.Key) (attachment.Snapshot, []explain.Kind, error) {
	d := g.with("attachment", attachdetach.Indexes()...)
	return gather(g, d, func(from kube.Readers) (attachment.Snapshot, error) {
		ctx := context.Background()
		s, err := attachdetach.Gather(ctx, from.Live, key, attachment.Rules{}, &attachdetach.Memory{})
		if err != nil {
			return s, err
		}
		for _, va := range s.Attachments {
			if names.IsAttachmentName(va.Name) {
				va.Name = names.AttachmentName(key.Handle, key.Driver, va.Spec.NodeName)
			}
		}
		return settled(
			s, func(s attachment.Snapshot) attachment.Verdict { return attachment.Decide(s, g.cluster.Now) },
			func(s attachment.Snapshot, refs []verdict.Ref) (attachment.Snapshot, error) {
				return attachdetach.Read(ctx, from.Live, s, refs)
			},
		)
	})
}

// Publishing implements [explain.Gatherer].
func (g gatherer) Publishing(
	va *storagev1.VolumeAttachment, driver publishing.Driver,
) (publishing.Snapshot, []explain.Kind, error) {
	return gather(g, g.with("publishing", attacher.Indexes()...), func(from kube.Readers) (publishing.Snapshot, error) {
		ctx := context.Background()
		s, err := attacher.Gather(ctx, from.Live, va, driver)
		if err != nil {
			return s, err
		}
		return settled(
			s, func(s publishing.Snapshot) publishing.Verdict { return publishing.Decide(s, g.cluster.Now) },
			func(s publishing.Snapshot, refs []verdict.Ref) (publishing.Snapshot, error) {
				return attacher.Read(ctx, from, s, refs)
			},
		)
	})
}

func (g gatherer) snapshots() *indexedDump {
	return g.with("snapshot", slices.Concat(snapshot.Indexes(), snapshot.ContentIndexes())...)
}

// Snapshot implements [explain.Gatherer].
func (g gatherer) Snapshot(key types.NamespacedName) (snapshotting.Snapshot, []explain.Kind, error) {
	return gather(g, g.snapshots(), func(from kube.Readers) (snapshotting.Snapshot, error) {
		ctx := context.Background()
		s, err := snapshot.Gather(ctx, from.Cached, key, snapshotting.Settings{})
		if err != nil {
			return s, err
		}
		return settled(s, func(s snapshotting.Snapshot) snapshotting.Verdict {
			return snapshotting.DecideSnapshot(s, g.cluster.Now)
		}, func(s snapshotting.Snapshot, refs []verdict.Ref) (snapshotting.Snapshot, error) {
			return snapshot.Read(ctx, from, s, refs)
		})
	})
}

// Content implements [explain.Gatherer].
func (g gatherer) Content(
	content *snapshotv1.VolumeSnapshotContent, o snapshotting.ContentSettings,
) (snapshotting.ContentSnapshot, []explain.Kind, error) {
	return gather(g, g.snapshots(), func(from kube.Readers) (snapshotting.ContentSnapshot, error) {
		return snapshot.GatherContent(context.Background(), from.Live, content, o)
	})
}

// Group implements [explain.Gatherer].
func (g gatherer) Group(key types.NamespacedName) (snapshotting.Group, []explain.Kind, error) {
	d := g.with("group", append(snapshot.Indexes(), snapshot.GroupIndexes()...)...)
	return gather(g, d, func(from kube.Readers) (snapshotting.Group, error) {
		ctx := context.Background()
		s, err := snapshot.GatherGroup(ctx, from.Cached, key, snapshotting.Settings{})
		if err != nil {
			return s, err
		}
		return settled(s, func(s snapshotting.Group) snapshotting.Verdict {
			return snapshotting.DecideSnapshot(s, g.cluster.Now)
		}, func(s snapshotting.Group, refs []verdict.Ref) (snapshotting.Group, error) {
			return snapshot.Read(ctx, from, s, refs)
		})
	})
}

// GroupContent implements [explain.Gatherer].
func (g gatherer) GroupContent(
	content *groupv1.VolumeGroupSnapshotContent, o snapshotting.ContentSettings,
) (snapshotting.GroupContent, []explain.Kind, error) {
	d := g.with("group", append(snapshot.Indexes(), snapshot.GroupIndexes()...)...)
	return gather(g, d, func(from kube.Readers) (snapshotting.GroupContent, error) {
		return snapshot.GatherGroupContent(context.Background(), from.Live, content, o)
	})
}

// noting is a dump that notes which of the kinds that are asked for were not read.
type noting struct {
	*kube.Dump
	cluster *explain.Cluster
	unread  []explain.Kind
}

// Get implements client.Reader.
func (n *noting) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	n.note(into)
	return n.Dump.Get(ctx, key, into, opts...)
}

// List implements client.Reader.
func (n *noting) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	n.note(into)
	return n.Dump.List(ctx, into, opts...)
}

func (n *noting) note(o runtime.Object) {
	of, err := apiutil.GVKForObject(o, Scheme())
	kind := explain.Kind(strings.TrimSuffix(of.Kind, "List"))
	if _, unread := n.cluster.Unread[kind]; err == nil && unread && !slices.Contains(n.unread, kind) {
		n.unread = append(n.unread, kind)
	}
}
