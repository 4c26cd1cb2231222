package inventory

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// newAPI returns an API server whose user may list classes nowhere, and pods in the namespace shop
// only.
func newAPI(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(opts)
			resource := schema.GroupResource{Resource: "things"}
			switch list.(type) {
			case *storagev1.StorageClassList:
				return apierrors.NewForbidden(resource, "", nil)
			case *corev1.PodList:
				if o.Namespace == "" {
					return apierrors.NewForbidden(resource, "", nil)
				}
			case *metav1.PartialObjectMetadataList:
				return apierrors.NewForbidden(resource, "", nil)
			}
			if _, typed := list.(runtime.Unstructured); typed {
				return &meta.NoKindMatchError{}
			}
			return c.List(ctx, list, client.InNamespace(o.Namespace))
		},
	}).Build()
}

func claimNamed(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// A watcher has the objects that exist, those that are created and deleted later, and what may not
// be read.
func TestWatch(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "hidden"}}
	api := newAPI(claimNamed("b"), other)
	w, err := Watch(ctx, api, "shop")
	if err != nil {
		t.Fatal(err)
	}
	c := w.Cluster(time.Now())
	if len(c.Claims) != 1 || len(c.Pods) != 0 {
		t.Errorf("%d claims and %d pods", len(c.Claims), len(c.Pods))
	}
	for _, kind := range []explain.Kind{explain.Class, explain.Pod, explain.Secret} {
		if c.Unread[kind] == "" {
			t.Errorf("%s is not said to be unread", kind)
		}
	}
	if c.Unread[explain.Claim] != "" || c.Unread[explain.Grant] != "" {
		t.Errorf("unread: %v", c.Unread)
	}
	if err := api.Create(ctx, claimNamed("a")); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, func(c *explain.Cluster) bool { return len(c.Claims) == 2 && c.Claims[0].Name == "a" })
	if err := api.Delete(ctx, claimNamed("b")); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, func(c *explain.Cluster) bool { return len(c.Claims) == 1 && c.Claims[0].Name == "a" })
}

// await waits for changes until the objects are as wanted.
func (w *Watcher) await(ctx context.Context, t *testing.T, is func(*explain.Cluster) bool) {
	t.Helper()
	for !is(w.Cluster(time.Now())) {
		select {
		case <-w.Changed():
		case <-ctx.Done():
			t.Fatal("no change is signalled")
		}
	}
}

// A deletion that the watch missed has no version: that of the object is of an earlier change.
func TestMissedDeletionHasNoVersion(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", ResourceVersion: "7"}}
	var all []Seen
	w := &Watcher{changed: make(chan struct{}, 1)}
	handler := w.handler(func(s Seen) { all = append(all, s) })
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "data", Obj: claim})
	handler.OnDelete(claim)
	if len(all) != 2 || !all[0].Deleted || all[0].Object.GetResourceVersion() != "" || all[1].Object.GetResourceVersion() != "7" {
		t.Errorf("%+v", all)
	}
	if claim.ResourceVersion != "7" {
		t.Error("the object of the cache was changed")
	}
}
