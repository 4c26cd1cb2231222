package apiserver

import (
	"context"
	"errors"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
)

// Client talks to the server. Objects are copied at the boundary.
type Client struct{ server *Server }

var _ client.Client = Client{}

// Client returns a client.
func (s *Server) Client() Client { return Client{s} }

var (
	errUnknownKind = errors.New("the simulated API server does not have this kind")
	errNotServed   = errors.New("the simulated API server does not serve this request")
)

var scheme = kube.NewScheme()

// answer writes what the server returned into the caller's object.
func answer(into, from client.Object, err error) error {
	if err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from).Elem())
	return nil
}

// Get implements client.Reader.
func (c Client) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if partial, is := o.(*metav1.PartialObjectMetadata); is {
		return c.getMetadata(key, partial)
	}
	st := strategyFor(o)
	if st == nil {
		return errUnknownKind
	}
	found, err := c.server.get(st, key)
	return answer(o, found, err)
}

// getMetadata reads the metadata of an object of the kind that into names.
func (c Client) getMetadata(key client.ObjectKey, into *metav1.PartialObjectMetadata) error {
	for _, st := range strategies {
		if st.kind != into.GroupVersionKind() {
			continue
		}
		found, err := c.server.get(st, key)
		if err != nil {
			return err
		}
		accessor, err := meta.Accessor(found)
		if err != nil {
			return err
		}
		into.ObjectMeta = meta.AsPartialObjectMetadata(accessor).ObjectMeta
		return nil
	}
	return errUnknownKind
}

// List implements client.Reader, for whole namespaces.
func (c Client) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.FieldSelector != nil && !options.FieldSelector.Empty() {
		return errNotServed
	}
	st := strategyForList(list)
	if st == nil {
		return errUnknownKind
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	var items []runtime.Object
	for _, o := range c.server.tables[st].sorted() {
		if options.Namespace == "" || options.Namespace == o.GetNamespace() {
			items = append(items, clone(o))
		}
	}
	list.SetResourceVersion(strconv.FormatInt(c.server.version, 10))
	return meta.SetList(list, items)
}

func strategyForList(list client.ObjectList) *strategy {
	kinds, _, err := scheme.ObjectKinds(list)
	if err != nil {
		return nil
	}
	for _, s := range strategies {
		if s.kind.GroupVersion().WithKind(s.kind.Kind+"List") == kinds[0] {
			return s
		}
	}
	return nil
}

// Create implements client.Writer.
func (c Client) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	st := strategyFor(o)
	if st == nil {
		return errUnknownKind
	}
	created, err := c.server.create(st, o)
	return answer(o, created, err)
}

// Update implements client.Writer.
func (c Client) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return c.update(o, main)
}

func (c Client) update(o client.Object, which part) error {
	st := strategyFor(o)
	if st == nil {
		return errUnknownKind
	}
	updated, err := c.server.update(st, which, o)
	return answer(o, updated, err)
}

// Patch implements client.Writer.
func (c Client) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.patch(o, p, main)
}

func (c Client) patch(o client.Object, p client.Patch, which part) error {
	st := strategyFor(o)
	if st == nil {
		return errUnknownKind
	}
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	patched, err := c.server.patch(st, which, client.ObjectKeyFromObject(o), change{kind: p.Type(), data: data})
	return answer(o, patched, err)
}

// Delete implements client.Writer.
func (c Client) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	st := strategyFor(o)
	if st == nil {
		return errUnknownKind
	}
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	return c.server.delete(st, client.ObjectKeyFromObject(o), options.Preconditions)
}

// DeleteAllOf is not served.
func (c Client) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errNotServed
}

// Apply is not served.
func (c Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errNotServed
}

// Watch is not served; see [Server.History].
func (c Client) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return nil, errNotServed
}

// Status implements client.StatusClient.
func (c Client) Status() client.SubResourceWriter { return statusClient{c} }

// SubResource is served for status only.
func (c Client) SubResource(string) client.SubResourceClient { return statusClient{c} }

// Scheme implements client.Client.
func (c Client) Scheme() *runtime.Scheme { return scheme }

// RESTMapper implements client.Client; there is none.
func (c Client) RESTMapper() meta.RESTMapper { return nil }

// GroupVersionKindFor implements client.Client.
func (c Client) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return kinds[0], nil
}

// IsObjectNamespaced implements client.Client.
func (c Client) IsObjectNamespaced(o runtime.Object) (bool, error) {
	object, ok := o.(client.Object)
	if !ok || strategyFor(object) == nil {
		return false, errUnknownKind
	}
	return strategyFor(object).namespaced, nil
}

// statusClient writes /status.
type statusClient struct{ client Client }

func (s statusClient) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errNotServed
}

func (s statusClient) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errNotServed
}

func (s statusClient) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.client.update(o, status)
}

func (s statusClient) Patch(
	_ context.Context,
	o client.Object,
	p client.Patch,
	_ ...client.SubResourcePatchOption,
) error {
	return s.client.patch(o, p, status)
}

func (s statusClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errNotServed
}
