package snapshot

import (
	"slices"
	"testing"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

type silence struct{}

func (silence) Event(runtime.Object, string, string, string) {}

func settings() reconcile.Settings {
	return reconcile.Settings{
		Workers: 1, Backoff: reconcile.Backoff{First: time.Second, Most: time.Minute}, Events: silence{},
		Clock:   clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		Decided: telemetry.NewCounter(prometheus.NewRegistry(), telemetry.MetricDecisions),
	}
}

// cacheOf is an informer cache that holds these objects as they are now, and learns nothing more.
func cacheOf(t *testing.T, objects ...client.Object) *kube.Overlay {
	t.Helper()
	for i, o := range objects {
		objects[i] = o.DeepCopyObject().(client.Object)
	}
	cache, err := kube.NewDump(kube.NewScheme(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	try(t, kube.AddIndexes(t.Context(), cache, append(Indexes(), GroupIndexes()...)...))

	overlay := kube.NewOverlay(cache, clocktesting.NewFakeClock(time.Now()))
	overlay.Fed(&snapshotv1.VolumeSnapshot{}, &snapshotv1.VolumeSnapshotContent{}, &corev1.PersistentVolumeClaim{},
		&groupv1.VolumeGroupSnapshot{}, &groupv1.VolumeGroupSnapshotContent{})
	return overlay
}

// storeOf is a store over a cache with these objects.
func storeOf(t *testing.T, api client.Client, objects ...client.Object) (store, *kube.Overlay) {
	t.Helper()
	overlay := cacheOf(t, objects...)
	return store{overlay, overlay.Recording(api)}, overlay
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fetch reads an object from the API server as it is now.
func fetch[T client.Object](t *testing.T, api client.Client, o T) T {
	t.Helper()
	try(t, api.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	return o
}

// SN-H2: after a restart, the cache has a ready group and not its content yet. The group stays
// ready, and one that is being deleted keeps its finalizer. A VolumeSnapshot of the group's name
// that is newer changes nothing.
func TestGroupWaitsForItsContentAfterRestart(t *testing.T) {
	for name, deleted := range map[string]bool{"SN-H2: ready": false, "SN-H2: being deleted": true} {
		t.Run(name, func(t *testing.T) {
			api := apiserver.New().Client()
			group := &groupv1.VolumeGroupSnapshot{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g", Finalizers: []string{names.FinalizerGroupSnapshot}},
				Spec: groupv1.VolumeGroupSnapshotSpec{
					VolumeGroupSnapshotClassName: new("c"),
					Source:                       groupv1.VolumeGroupSnapshotSource{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
				},
				Status: &groupv1.VolumeGroupSnapshotStatus{
					BoundVolumeGroupSnapshotContentName: new("groupcontent"), ReadyToUse: new(true), CreationTime: new(metav1.Unix(1, 0)),
				},
			}
			try(t, api.Create(t.Context(), group))
			content := &groupv1.VolumeGroupSnapshotContent{
				ObjectMeta: metav1.ObjectMeta{Name: "groupcontent", Finalizers: []string{names.FinalizerGroupContent}},
				Spec: groupv1.VolumeGroupSnapshotContentSpec{
					Driver: "d", DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
					VolumeGroupSnapshotRef: corev1.ObjectReference{Namespace: "n", Name: "g", UID: group.UID},
					Source:                 groupv1.VolumeGroupSnapshotContentSource{VolumeHandles: []string{"v"}},
				},
				Status: &groupv1.VolumeGroupSnapshotContentStatus{
					VolumeGroupSnapshotHandle: new("handle"), ReadyToUse: new(true), CreationTime: new(metav1.Unix(1, 0)),
				},
			}
			try(t, api.Create(t.Context(), content))
			other := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g"}}
			try(t, api.Create(t.Context(), other))
			if deleted {
				try(t, api.Delete(t.Context(), group))
			}
			before := fetch(t, api, group.DeepCopy())
			groups := NewController(ControllerConfig{
				Settings: settings(), Cached: cacheOf(t, before, other), Live: api, Writer: api,
			}).Groups()
			_, err := groups.Loop().Reconcile(t.Context(), client.ObjectKeyFromObject(group))
			try(t, err)
			after := fetch(t, api, group.DeepCopy())
			if !deleted && after.ResourceVersion != before.ResourceVersion {
				t.Errorf("the ready group is written to; its status is now %+v", after.Status)
			}
			if !slices.Contains(after.Finalizers, names.FinalizerGroupSnapshot) {
				t.Error("the group loses its finalizer while its content exists")
			}
			marked := fetch(t, api, content)
			if _, is := marked.Annotations[names.AnnGroupBeingDeleted]; is != deleted || (marked.DeletionTimestamp != nil) != deleted {
				t.Errorf("the content is %+v", marked.ObjectMeta)
			}
		})
	}
}

// SN-G1: a claim whose label the cache has not seen yet belongs to the group: taken without it, the group
// would lack its volume for ever.
func TestGroupHasTheClaimOfANewLabel(t *testing.T) {
	api := apiserver.New().Client()
	group := &groupv1.VolumeGroupSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g"},
		Spec: groupv1.VolumeGroupSnapshotSpec{Source: groupv1.VolumeGroupSnapshotSource{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		}},
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "late"}}
	try(t, api.Create(t.Context(), group))
	try(t, api.Create(t.Context(), claim))
	cache := cacheOf(t, group, claim)
	labelled := claim.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	try(t, api.Update(t.Context(), labelled))
	groups := NewController(ControllerConfig{Settings: settings(), Cached: cache, Live: api, Writer: api}).Groups()
	s, err := groups.Gather(t.Context(), client.ObjectKeyFromObject(group))
	try(t, err)
	s, err = groups.Read(t.Context(), s, []verdict.Ref{{What: rules.ReadSources}})
	try(t, err)
	if len(s.Sources) != 1 || s.Sources[0].Claim.Name != claim.Name {
		t.Errorf("the group has %d claims", len(s.Sources))
	}
}

const (
	foreign    = "other.example/keep"
	foreignAnn = "other.example/note"
)

// contentAndStale creates a content, returns it as the cache has it, and then has another writer
// add an annotation and a finalizer to it, which the cache does not show.
func contentAndStale(t *testing.T, api client.Client, vs *snapshotv1.VolumeSnapshot) (stale *snapshotv1.VolumeSnapshotContent) {
	t.Helper()
	stale = &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{
			Name: "content", Finalizers: []string{names.FinalizerSnapshotContent}, Annotations: map[string]string{"first": "1"},
		},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: "d", DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain,
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "n", Name: "s", UID: vs.UID},
			Source:            snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new("v")},
		},
	}
	try(t, api.Create(t.Context(), stale))
	now := stale.DeepCopy()
	delete(now.Annotations, "first")
	metav1.SetMetaDataAnnotation(&now.ObjectMeta, foreignAnn, "added")
	metav1.SetMetaDataAnnotation(&now.ObjectMeta, names.AnnSnapshotBeingCreated, "yes")
	now.Finalizers = append(now.Finalizers, foreign)
	try(t, api.Update(t.Context(), now))
	return stale
}

// SN-H6: the snapshot-controller marks the content of a snapshot that is being deleted while the
// sidecar has just set its own annotation. The cached content has neither that one nor another
// writer's. No annotation and no finalizer is lost, and none that was removed comes back.
func TestMarkFromStaleCacheKeepsOtherAnnotations(t *testing.T) {
	api := apiserver.New().Client()
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", Finalizers: []string{names.FinalizerSnapshotSource}},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("claim")}},
		Status:     &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: new("content")},
	}
	try(t, api.Create(t.Context(), vs))
	stale := contentAndStale(t, api, vs)
	try(t, api.Delete(t.Context(), vs))
	cached := cacheOf(t, fetch(t, api, vs.DeepCopy()), stale)
	c := NewController(ControllerConfig{Settings: settings(), Cached: cached, Live: api, Writer: api})
	_, err := c.Loop().Reconcile(t.Context(), client.ObjectKeyFromObject(vs))
	try(t, err)
	now := fetch(t, api, stale.DeepCopy())
	want := map[string]string{foreignAnn: "added", names.AnnSnapshotBeingCreated: "yes", names.AnnSnapshotBeingDeleted: "yes"}
	for key, value := range want {
		if now.Annotations[key] != value {
			t.Errorf("SN-H6: the annotation %s is lost: %v", key, now.Annotations)
		}
	}
	if len(now.Annotations) != len(want) || !slices.Contains(now.Finalizers, foreign) {
		t.Errorf("SN-H6: annotations %v, finalizers %v", now.Annotations, now.Finalizers)
	}
}

// SN-H6: the sidecar removes its finalizer from a content that got another one meanwhile. The first
// attempt conflicts and changes nothing; once the cache has the new list, only ours goes. A list of
// finalizers that lost an entry meanwhile does not get it back.
func TestFinalizerOfOthersSurvivesStaleCache(t *testing.T) {
	api := apiserver.New().Client()
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}}
	try(t, api.Create(t.Context(), vs))
	stale := contentAndStale(t, api, vs)
	contents, _ := storeOf(t, api, stale)
	err := contents.release(t.Context(), stale, names.FinalizerSnapshotContent)
	now := fetch(t, api, stale.DeepCopy())
	if !apierrors.IsConflict(err) || !slices.Contains(now.Finalizers, foreign) {
		t.Fatalf("SN-H6: removal from a stale list: error %v, finalizers %v", err, now.Finalizers)
	}
	contents, _ = storeOf(t, api, now)
	try(t, contents.release(t.Context(), now, names.FinalizerSnapshotContent))
	if now = fetch(t, api, now); !slices.Equal(now.Finalizers, []string{foreign}) {
		t.Errorf("SN-H6: finalizers %v, want that of the other writer alone", now.Finalizers)
	}

	// The cache still shows the other writer's finalizer on the claim, which is gone.
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "claim", Finalizers: []string{foreign}}}
	try(t, api.Create(t.Context(), claim))
	shown := claim.DeepCopy()
	claim.Finalizers = []string{"other.example/second"}
	try(t, api.Update(t.Context(), claim))
	c := NewController(ControllerConfig{Settings: settings(), Cached: cacheOf(t, shown), Live: api, Writer: api})
	s, err := c.Gather(t.Context(), client.ObjectKeyFromObject(vs))
	try(t, err)
	s.Claim = shown
	err = c.updateClaim(t.Context(), s, addFinalizers)
	if got := fetch(t, api, claim); !apierrors.IsConflict(err) || !slices.Equal(got.Finalizers, []string{"other.example/second"}) {
		t.Errorf("SN-H6: the claim's finalizers from a stale list: error %v, finalizers %v", err, got.Finalizers)
	}
}

// SN-H6: the status of a content is patched field by field, so that the sidecar's write from a stale
// cache does not undo what another process wrote.
func TestStatusFromStaleCacheKeepsOtherFields(t *testing.T) {
	api := apiserver.New().Client()
	stale := contentAndStale(t, api, &snapshotv1.VolumeSnapshot{})
	now := fetch(t, api, stale.DeepCopy())
	now.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: new("handle"), CreationTime: new(int64(7))}
	try(t, api.Status().Update(t.Context(), now))
	contents, _ := storeOf(t, api, stale)
	try(t, contents.writeStatus(t.Context(), stale, func(c any) {
		c.(*snapshotv1.VolumeSnapshotContent).Status = &snapshotv1.VolumeSnapshotContentStatus{ReadyToUse: new(false)}
	}))
	now = fetch(t, api, now)
	if now.Status.SnapshotHandle == nil || now.Status.CreationTime == nil || now.Status.ReadyToUse == nil {
		t.Errorf("SN-H6: status %+v", now.Status)
	}
}

// A content that this process has deleted counts as being deleted before the watch shows it, so
// that it is deleted once; and one whose last finalizer it removed counts as gone, so that
// DeleteSnapshot is called once. The answer to that write has no newer version than the cache.
func TestDeletionIsKnownBeforeTheWatchShowsIt(t *testing.T) {
	api := apiserver.New().Client()
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content", Finalizers: []string{names.FinalizerSnapshotContent}},
	}
	try(t, api.Create(t.Context(), content))
	contents, overlay := storeOf(t, api, content)
	try(t, contents.delete(t.Context(), content))
	got, err := contents.newest(t.Context(), content)
	try(t, err)
	if got.GetDeletionTimestamp() == nil {
		t.Error("the deletion is forgotten")
	}
	now := fetch(t, api, content.DeepCopy())
	overlay.Saw(now)

	contents, _ = storeOf(t, api, now)
	try(t, contents.release(t.Context(), now, names.FinalizerSnapshotContent))
	if got, err = contents.newest(t.Context(), content); !apierrors.IsNotFound(err) {
		t.Errorf("the content is gone, and is read as %+v, %v", got, err)
	}
	try(t, contents.release(t.Context(), now, names.FinalizerSnapshotContent))
}
