package inventory

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/purser-csi/purser/internal/core/explain"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/core/topology"
	"github.com/purser-csi/purser/internal/world"
	"github.com/purser-csi/purser/internal/world/dump"
)

// gatherer implements [explain.Gatherer] over the objects of a cluster. It is for one goroutine.
type gatherer struct {
	cluster *explain.Cluster
	objects func() []client.Object
	drivers map[string]*driverDump
}

// driverDump are the objects with the indexes of one driver.
type driverDump struct {
	reader *dump.Reader
	nodes  func() ([]topology.Node, error) // with the driver, read once
	err    error
}

// prepare completes a cluster whose lists are filled.
func prepare(c *explain.Cluster) *explain.Cluster {
	c.Gather = gatherer{c, sync.OnceValue(func() []client.Object { return objectsOf(c) }), map[string]*driverDump{}}
	return c.Prepare()
}

// objectsOf returns what gathers read. Of secrets they learn that there is one.
func objectsOf(c *explain.Cluster) []client.Object {
	all := slices.Concat(
		objects(c.Claims), objects(c.Volumes), objects(c.Classes), objects(c.AttributesClasses), objects(c.Nodes),
		objects(c.CSINodes), objects(c.Attachments), objects(c.Namespaces), objects(c.Snapshots), objects(c.Contents),
	)
	for _, name := range c.Secrets {
		secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
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

func (g gatherer) of(driver reclaim.Driver) *driverDump {
	d := g.drivers[driver.Name]
	if d != nil {
		return d
	}
	d = &driverDump{}
	g.drivers[driver.Name] = d
	if d.reader, d.err = dump.New(Scheme(), g.objects()...); d.err == nil {
		d.err = world.AddIndexes(context.Background(), d.reader, world.ReclaimIndexes(driver)...)
	}
	return d
}

// Provisioning implements [explain.Gatherer].
func (g gatherer) Provisioning(
	key provision.Key, driver provision.Driver, o provision.Options,
) (s provision.Snapshot, unread []explain.Kind, err error) {
	d := g.of(reclaim.Driver{Name: driver.Name, Controller: driver.Controller})
	if d.err != nil {
		return s, nil, d.err
	}
	from := &noting{Reader: d.reader, cluster: g.cluster}
	memory := world.ProvisioningMemory{Driver: driver, Options: o, HandedOver: true}
	memory.Nodes = func(read func() ([]topology.Node, error)) ([]topology.Node, error) {
		if d.nodes == nil {
			d.nodes = sync.OnceValues(read)
		}
		return d.nodes()
	}
	s, err = world.Provisioning(context.Background(), world.Readers{Cached: from, Live: from}, key, memory)
	return s, from.unread, err
}

// Reclaim implements [explain.Gatherer].
func (g gatherer) Reclaim(
	volume string, driver reclaim.Driver,
) (s reclaim.Snapshot, unread []explain.Kind, err error) {
	d := g.of(driver)
	if d.err != nil {
		return s, nil, d.err
	}
	from := &noting{Reader: d.reader, cluster: g.cluster}
	s, err = world.Reclaim(context.Background(), world.Readers{Cached: from, Live: from}, volume,
		world.ReclaimMemory{Now: g.cluster.Now, Driver: driver})
	return s, from.unread, err
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
