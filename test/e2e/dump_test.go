package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/world"
	"github.com/purser-csi/purser/internal/world/dump"
	"github.com/purser-csi/purser/internal/world/inventory"
	"github.com/purser-csi/purser/test/decisions"
)

// Each decision of each controller has the same verdict over the file that `purser dump` writes as
// over an informer cache of the running cluster.
func TestVerdictsOverDumpAndCache(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	b.standsStill(t)
	cached := b.cache(t)
	live, err := client.New(b.Admin, client.Options{Scheme: kube.Scheme()})
	must(t, err)
	var overCache map[string]string
	eventually(t, func(ctx context.Context) error { // other tests change the cluster at the same time
		objects, err := b.dump(ctx)
		if err != nil {
			return err
		}
		dumped, err := dump.New(inventory.Scheme(), objects...)
		if err != nil {
			return err
		}
		if err := world.AddIndexes(ctx, dumped, decisions.Indexes(builtIn)...); err != nil {
			return err
		}
		now, ours := time.Now(), b.ours(objects)
		overCache = decisions.Of(ctx, world.Readers{Cached: cached, Live: live}, ours, builtIn, now)
		overDump := decisions.Of(ctx, world.Readers{Cached: dumped, Live: dumped}, ours, builtIn, now)
		if diff := cmp.Diff(overCache, overDump); diff != "" {
			return fmt.Errorf("-cache +dump:\n%s", diff)
		}
		return nil
	})
	reasons := map[string]bool{}
	for what, verdict := range overCache {
		reasons[verdict] = true
		if strings.HasPrefix(verdict, "error: ") {
			t.Errorf("%s: %s", what, verdict)
		}
	}
	const least = 20
	if len(reasons) < least {
		t.Errorf("%d different verdicts, want at least %d", len(reasons), least)
	}
}

// standsStill creates claims and volumes that are each idle for another reason.
func (b testNamespace) standsStill(t *testing.T) {
	t.Helper()
	class := b.class(t, func(c *storagev1.StorageClass) { *c.ReclaimPolicy = corev1.PersistentVolumeReclaimRetain })
	late := class.DeepCopy()
	late.ResourceVersion, late.Name = "", b.name+"-late"
	*late.VolumeBindingMode = storagev1.VolumeBindingWaitForFirstConsumer
	must(t, b.Client.Create(t.Context(), late))
	kept := b.claim(t, "kept", class.Name)
	released := b.awaitBound(t, kept)
	b.delete(t, kept)
	b.awaitGone(t, kept)
	b.awaitVolume(t, released, "is Released", func() bool { return released.Status.Phase == corev1.VolumeReleased })
	b.awaitBound(t, b.claim(t, "bound", ""))
	b.claim(t, "waits-for-pod", late.Name)
	b.claim(t, "lacks-class", b.name+"-none")
	chooses := b.newClaim("chooses", class.Name)
	chooses.Spec.VolumeName = released.Name
	must(t, b.Client.Create(t.Context(), chooses))
	inUse := b.claim(t, "used", "")
	b.awaitBound(t, inUse)
	b.usingPod(t, inUse, "uses")
	b.delete(t, inUse)
}

// cache is an informer cache of the cluster as `plane` has one.
func (b testNamespace) cache(t *testing.T) ctrlcache.Cache {
	t.Helper()
	cached, err := ctrlcache.New(b.Admin, ctrlcache.Options{
		Scheme: kube.Scheme(), DefaultTransform: kube.TrimForPlane(kube.BindingTrim{}),
	})
	must(t, err)
	must(t, world.AddIndexes(t.Context(), cached, decisions.Indexes(builtIn)...))
	go func() { _ = cached.Start(t.Context()) }()
	if !cached.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not sync")
	}
	return cached
}

// ours are the objects of this test.
func (b testNamespace) ours(objects []client.Object) (ours []client.Object) {
	for _, o := range objects {
		pv, isVolume := o.(*corev1.PersistentVolume)
		if o.GetNamespace() == b.name || isVolume && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == b.name {
			ours = append(ours, o)
		}
	}
	return ours
}

// dump returns the objects of the file that the program writes.
func (b testNamespace) dump(ctx context.Context) ([]client.Object, error) {
	text, err := exec.CommandContext(ctx, filepath.Join(b.Bin, "purser"), "dump", "--kubeconfig", b.Kubeconfig()).Output()
	if err != nil {
		return nil, fmt.Errorf("purser dump: %w", err)
	}
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	var objects []client.Object
	for _, item := range list.Items {
		apiVersion, _ := item["apiVersion"].(string)
		kind, _ := item["kind"].(string)
		typed, err := inventory.Scheme().New(schema.FromAPIVersionAndKind(apiVersion, kind))
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item, typed); err != nil {
			return nil, err
		}
		object, ok := typed.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is no API object", typed)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
