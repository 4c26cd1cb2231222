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
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/controllers"
	provisionerrole "github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/test/decisions"
	"github.com/purser-csi/purser/test/e2e/life"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// Each decision has the same verdict over the file that `purser dump` writes as over informer caches
// of the running cluster: that of the demo, at the end of its chapter on a snapshot, with volumes
// that are attached.
func TestVerdictsOverDumpAndCache(t *testing.T) {
	t.Parallel()
	s := start(t, stage.Config{DataDir: dataDir(t), Args: []string{"--attach-required"}})
	end := lifeSoFar(t, s)
	b := newTestNamespace(t, s)
	b.standsStill(t)
	cached := b.views(t)
	var overCache map[string]string
	eventually(t, func(ctx context.Context) error { // the caches may be behind the dump
		objects, err := b.dump(ctx)
		if err != nil {
			return err
		}
		dumped, err := decisions.OverDump(ctx, inventory.Scheme(), objects, builtIn)
		if err != nil {
			return err
		}
		now := time.Now()
		overCache = decisions.Of(ctx, cached, objects, builtIn, now)
		overDump := decisions.Of(ctx, dumped, objects, builtIn, now)
		if diff := cmp.Diff(overCache, overDump); diff != "" {
			return fmt.Errorf("-cache +dump:\n%s", diff)
		}
		return nil
	})
	mustDiffer(t, overCache)
	b.delete(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "uses"}})
	live(t, end)
}

// lifeSoFar runs the demo's steps until two pods use two volumes, and returns the steps that follow.
// The second volume is restored from a snapshot of the first, where the driver takes snapshots.
func lifeSoFar(t *testing.T, s *stage.Stage) (end []life.Step) {
	t.Helper()
	c := &life.Copies{Stage: s, Examples: examples(t)}
	possible, err := c.Possible(t.Context())
	must(t, err)
	l := &life.Life{Stage: s, Examples: examples(t)}
	begin, end := l.Begin(), l.End()
	if possible {
		steps := c.Steps()
		begin, end = steps[:len(steps)-1], steps[len(steps)-1:]
	}
	live(t, begin)
	return end
}

// mustDiffer fails the test for a decision that could not be made, and unless the decisions ended in
// many ways.
func mustDiffer(t *testing.T, verdicts map[string]string) {
	t.Helper()
	different := map[string]bool{}
	for what, verdict := range verdicts {
		different[verdict] = true
		if strings.HasPrefix(verdict, "error: ") {
			t.Errorf("%s: %s", what, verdict)
		}
	}
	const least = 35
	if len(different) < least {
		t.Errorf("%d different verdicts, want at least %d", len(different), least)
	}
	t.Logf("%d decisions, %d different verdicts", len(verdicts), len(different))
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
	b.waitsForSources(t)
	must(t, b.Client.Create(t.Context(), &storagev1.CSIStorageCapacity{ // of a segment that is not planned: `up` publishes none
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "late", Labels: map[string]string{
			names.LabelCapacityDriver: builtIn, names.LabelCapacityManagedBy: names.CapacityManager(""),
		}},
		StorageClassName: late.Name, NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "gone"}},
	}))
}

// waitsForSources creates a snapshot that cannot be taken, and claims that wait for it and for an
// unbound claim.
func (b testNamespace) waitsForSources(t *testing.T) {
	t.Helper()
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "lacks-class"}}
	vs.Spec.Source.PersistentVolumeClaimName, vs.Spec.VolumeSnapshotClassName = new("bound"), new(b.name+"-none")
	must(t, b.Client.Create(t.Context(), vs))
	for name, from := range map[string]corev1.TypedLocalObjectReference{
		"restores": {APIGroup: new(snapshotv1.GroupName), Kind: "VolumeSnapshot", Name: vs.Name},
		"clones":   {Kind: "PersistentVolumeClaim", Name: "waits-for-pod"},
	} {
		claim := b.newClaim(name, b.name)
		claim.Spec.DataSource = &from
		must(t, b.Client.Create(t.Context(), claim))
	}
}

// views reads the caches of the running cluster: one as `plane` has it, and one as the sidecars of a
// driver have it.
func (b testNamespace) views(t *testing.T) decisions.Views {
	t.Helper()
	live, err := client.New(b.Admin, client.Options{Scheme: kube.Scheme()})
	must(t, err)
	trim := registry.Trim(controllers.All(nil), append(provisionerrole.Reads(), resizer.Reads()...)...)
	return decisions.Views{
		Readers:  kube.Readers{Cached: b.cache(t, trim, decisions.Indexes(builtIn)), Live: live},
		Sidecars: b.cache(t, ctrlcache.TransformStripManagedFields(), decisions.SidecarIndexes()),
	}
}

func (b testNamespace) cache(t *testing.T, trim toolscache.TransformFunc, indexes []kube.Index) ctrlcache.Cache {
	t.Helper()
	cached, err := ctrlcache.New(b.Admin, ctrlcache.Options{Scheme: kube.Scheme(), DefaultTransform: trim})
	must(t, err)
	must(t, kube.AddIndexes(t.Context(), cached, indexes...))
	go func() { _ = cached.Start(t.Context()) }()
	if !cached.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not sync")
	}
	return cached
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
