package decisions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/protection"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/test/decisions"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/view"
)

// populate creates a cluster in which each decision has something to find, and returns its objects.
func populate(t *testing.T, server *apiserver.Server) []client.Object {
	t.Helper()
	api := server.Client()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	size := func(of string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(of)}
	}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for _, name := range []string{"used", "unused", "finished", "pending", "waits-scratch"} {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: []string{names.FinalizerPVCProtection}},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size("2Gi")}},
		}
		if name != "pending" {
			claim.Spec.VolumeName, claim.Spec.VolumeAttributesClassName = "pv-"+name, new("gold")
		}
		must(api.Create(t.Context(), claim))
		if name == "pending" {
			continue
		}
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, size("1Gi")
		must(api.Status().Update(t.Context(), claim))
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name, Finalizers: []string{names.FinalizerPVProtection}},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size("1Gi"), AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: name, UID: claim.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}},
			},
		}
		must(api.Create(t.Context(), pv))
		pv.Status.Phase = corev1.VolumeBound
		must(api.Status().Update(t.Context(), pv))
	}
	reclaim, waits := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer
	must(api.Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Provisioner: "d", ReclaimPolicy: &reclaim}))
	must(api.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "late", Annotations: map[string]string{names.AnnDefaultStorageClass: "true"}}, Provisioner: "d", VolumeBindingMode: &waits,
	}))
	for name, class := range map[string]*string{"asks": new("ours"), "waits-for-pod": new("late"), "static": new(""), "classless": nil, "lacks-class": new("none")} {
		must(api.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{names.AnnStorageProvisioner: "d"}},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: class, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size("2Gi")}},
		}))
	}
	for name, phase := range map[string]corev1.PersistentVolumePhase{"free": corev1.VolumeAvailable, "free-too": corev1.VolumeAvailable, "released": corev1.VolumeReleased, "same-handle": corev1.VolumeReleased} {
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size("3Gi"), AccessModes: modes, PersistentVolumeReclaimPolicy: reclaim,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "shared"}},
			},
		}
		if phase == corev1.VolumeReleased {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "former", UID: "former"}
		}
		must(api.Create(t.Context(), pv))
		pv.Status.Phase = phase
		must(api.Status().Update(t.Context(), pv))
	}
	pod := func(name, node string, phase corev1.PodPhase, source corev1.VolumeSource) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:       corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: source}}},
		}
		must(api.Create(t.Context(), p))
		p.Status.Phase = phase
		must(api.Status().Update(t.Context(), p))
	}
	claimed := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	template := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}
	pod("runs", "node", corev1.PodRunning, claimed("used"))
	pod("ended", "node", corev1.PodSucceeded, claimed("finished"))
	pod("new", "", corev1.PodPending, template)
	pod("waits", "", corev1.PodPending, template) // the claim of its name is not its own
	for _, claim := range apiserver.Objects(server, &corev1.PersistentVolumeClaim{}) {
		if strings.HasPrefix(claim.Spec.VolumeName, "pv-") && claim.Name != "unused" || claim.Name == "pending" {
			must(api.Delete(t.Context(), claim.DeepCopy()))
		}
	}
	must(api.Delete(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-used"}}))
	populateAttachments(t, api)
	populateSnapshots(t, api)
	populateCapacities(t, api)
	return objectsOf(server)
}

func addIndexes(t *testing.T, to client.FieldIndexer, indexes []kube.Index) {
	t.Helper()
	if err := kube.AddIndexes(t.Context(), to, indexes...); err != nil {
		t.Fatal(err)
	}
}

// watch has the cache follow a kind that has no index.
func watch(t *testing.T, cached *view.View, of client.Object) {
	t.Helper()
	if _, err := cached.GetInformer(t.Context(), of); err != nil {
		t.Fatal(err)
	}
}

func newDump(t *testing.T, objects []client.Object) decisions.Views {
	t.Helper()
	views, err := decisions.OverDump(t.Context(), kube.Scheme(), objects, "d")
	if err != nil {
		t.Fatal(err)
	}
	return views
}

// Each decision has the same verdict over a dump as over the cache, which trims its objects; and a
// second gather returns the same as the first one.
func TestVerdictsOverDumpAndCache(t *testing.T) {
	server := apiserver.New()
	objects := populate(t, server)
	plane, sidecars := view.New(server), view.New(server)
	plane.Transform = registry.Trim(controllers.All(nil), append(provisioner.Reads(), resizer.Reads()...)...)
	sidecars.Transform = ctrlcache.TransformStripManagedFields()
	addIndexes(t, plane, decisions.Indexes("d"))
	addIndexes(t, sidecars, decisions.SidecarIndexes())
	watch(t, plane, &storagev1.CSINode{})
	watch(t, sidecars, &snapshotv1.VolumeSnapshotClass{})
	now := time.Now()
	decide := func(from decisions.Views) map[string]string {
		return decisions.Of(t.Context(), from, objects, "d", now)
	}
	cached := decisions.Views{Readers: kube.Readers{Cached: plane, Live: server.Client()}, Sidecars: sidecars}
	overCache := decide(cached)
	if diff := cmp.Diff(overCache, decide(cached)); diff != "" {
		t.Errorf("a gather changed something (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(overCache, decide(newDump(t, objects))); diff != "" {
		t.Errorf("-cache +dump:\n%s", diff)
	}
	reasons := map[string]bool{}
	for _, v := range overCache {
		reasons[v] = true
	}
	const least = 55
	if len(reasons) < least {
		t.Errorf("only %d different verdicts, want at least %d: %v", len(reasons), least, overCache)
	}
}

// 3.3: a class is used by the claims and the volumes that the index leads to.
func TestClassProtection(t *testing.T) {
	terminating := func(name string) *storagev1.VolumeAttributesClass {
		return &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: "u", Finalizers: []string{names.FinalizerVACProtection}, DeletionTimestamp: new(metav1.Unix(1000, 0)),
		}}
	}
	objects := []client.Object{
		terminating("gold"), terminating("silver"),
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: new("gold")},
		},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: new("gold")}},
	}
	builder := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(objects...)
	for _, index := range protection.ClassIndexes() {
		builder.WithIndex(index.Kind, index.Field, index.Values)
	}
	for name, from := range map[string]client.Reader{"dump": newDump(t, objects).Cached, "client": builder.Build()} {
		for class, want := range map[string][]string{"gold": {"claim ns/c", "PersistentVolume v"}, "silver": nil} {
			s, err := protection.GatherClass(t.Context(), from, kube.KeyOf(terminating(class)))
			if diff := cmp.Diff(want, s.Users); err != nil || s.Object == nil || diff != "" {
				t.Errorf("%s, class %s: %v, %v\n%s", name, class, s.Object, err, diff)
			}
		}
		other := kube.KeyOf(terminating("gold"))
		other.UID = "other"
		if s, err := protection.GatherClass(t.Context(), from, other); err != nil || s.Object != nil {
			t.Errorf("%s: a class of another uid: %v, %v", name, s.Object, err)
		}
	}
}
