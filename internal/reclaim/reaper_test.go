package reclaim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/csirpc"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/topology"
)

const (
	reaperDriverName = "csi.example"
	nodeKey          = "csi.example/node"
)

// reaperDriver notes the volumes that it is asked to delete.
type reaperDriver struct {
	csi.ControllerClient
	deleted []string
	fails   error
}

func (d *reaperDriver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest, _ ...grpc.CallOption) (*csi.DeleteVolumeResponse, error) {
	d.deleted = append(d.deleted, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, d.fails
}

// reaperRig is a reaper with the reclaim controller, and nodes n1 and n2.
type reaperRig struct {
	*Reaper
	reclaims *Controller
	api      client.Client
	driver   *reaperDriver
	clock    *clocktesting.FakeClock
	events   []string
}

// Event implements the recorder of events.
func (r *reaperRig) Event(_ runtime.Object, _, reason, message string) {
	r.events = append(r.events, reason+" "+message)
}

func newReaperRig(forget bool, objects ...client.Object) *reaperRig {
	r := &reaperRig{driver: &reaperDriver{}, clock: clocktesting.NewFakeClock(time.Unix(100_000, 0))}
	is := reclaim.Driver{Name: reaperDriverName, Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true,
	}}
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(append(objects, node("n1"), node("n2"))...)
	for _, index := range Indexes(is) {
		builder.WithIndex(index.Kind, index.Field, index.Values)
	}
	r.api = builder.Build()
	r.Reaper = NewReaper(ReaperConfig{
		Cached: r.api, Live: r.api, Writer: r.api, Driver: reaperDriverName, CSI: r.driver, After: time.Hour, Clock: r.clock,
		Namespace: "system", Prefix: "purser-intents-csi-example-",
	})
	if forget {
		r.CSI = nil
	}
	measures := telemetry.NewMetrics(prometheus.NewRegistry(), func() int { return 0 })
	r.reclaims = New(Config{
		Cached: over(kube.SomeVolumes(r.api, r.Has)), Live: kube.SomeVolumes(r.api, r.Has), AllVolumes: r.api, Writer: r.api,
		CSI: r.Client(), Calls: &csirpc.VolumeLocks{},
		Driver: is, Timeout: time.Second, InFlight: measures.InFlight,
		Settings: reconcile.Settings{
			Backoff: reconcile.Backoff{First: time.Second, Most: time.Minute}, Clock: r.clock, Events: r, Decided: measures.Decisions,
		},
	})
	return r
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{nodeKey: name}}}
}

// volume is a released one on a node, changed by edits.
func volume(on string, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pv", UID: "u", Finalizers: []string{names.FinalizerVolume},
			Annotations: map[string]string{names.AnnProvisionedBy: reaperDriverName},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Namespace: "crew", Name: "logbook", UID: "c"},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: reaperDriverName, VolumeHandle: "h"}},
			NodeAffinity:                  topology.Affinity([]*csi.Topology{{Segments: map[string]string{nodeKey: on}}}),
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
	for _, edit := range edits {
		edit(pv)
	}
	return pv
}

// later looks at once and again after a while, and runs the reclaim controller after each look.
func (r *reaperRig) later(t *testing.T, after time.Duration) {
	t.Helper()
	for _, step := range []time.Duration{0, after} {
		r.clock.Step(step)
		if err := r.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := r.reclaims.Loop().Reconcile(t.Context(), "pv"); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *reaperRig) isThere(t *testing.T) bool {
	t.Helper()
	pv, err := kube.Get(t.Context(), r.api, types.NamespacedName{Name: "pv"}, &corev1.PersistentVolume{})
	if err != nil {
		t.Fatal(err)
	}
	return pv != nil
}

// N-12: what is reclaimed, and how. The finalizer goes only after the driver said that the volume is
// deleted, or where it is not asked.
func TestReap(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "crew", Name: "logbook", UID: "c"}}
	for _, tc := range []struct {
		row    string
		forget bool
		after  time.Duration
		pv     *corev1.PersistentVolume
		beside []client.Object
		fails  error
		calls  int
		stays  bool
	}{
		{"by the driver", false, time.Hour, volume("n9"), nil, nil, 1, false},
		{"forgotten", true, time.Hour, volume("n9"), nil, nil, 0, false},
		{"the driver fails", false, time.Hour, volume("n9"), nil, status.Error(codes.Unavailable, "down"), 1, true},
		{"not long enough", false, time.Hour - 1, volume("n9"), nil, nil, 0, true},
		{"its node exists", false, time.Hour, volume("n2"), nil, nil, 0, true},
		{"its node exists, to forget", true, time.Hour, volume("n2"), nil, nil, 0, true},
		{"Retain", true, time.Hour, volume("n9", func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}), nil, nil, 0, true},
		{"bound", true, time.Hour, volume("n9", func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound }), nil, nil, 0, true},
		{"its claim exists", true, time.Hour, volume("n9"), []client.Object{claim}, nil, 0, true},
		{"of another driver", true, time.Hour, volume("n9", func(pv *corev1.PersistentVolume) {
			pv.Annotations, pv.Spec.CSI.Driver = nil, "other"
		}), nil, nil, 0, true},
		{"no node affinity", true, time.Hour, volume("n9", func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }), nil, nil, 0, true},
		{"D-37 on a node that exists is another PersistentVolume with the handle", false, time.Hour, volume("n9"), []client.Object{
			volume("n1", func(pv *corev1.PersistentVolume) {
				pv.Name, pv.UID, pv.Status.Phase = "second", "v", corev1.VolumeBound
			}),
			claim,
		}, nil, 0, true},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := newReaperRig(tc.forget, append(tc.beside, tc.pv)...)
			r.driver.fails = tc.fails
			r.later(t, tc.after)
			if len(r.driver.deleted) != tc.calls || r.isThere(t) != tc.stays {
				t.Errorf("DeleteVolume %q, the PersistentVolume is there: %v, events %q", r.driver.deleted, r.isThere(t), r.events)
			}
		})
	}
}

// N-12: the API server is asked for the nodes right before the call. One that the cache does not show
// yet, by its name or by its label, keeps the volume.
func TestNodeThatTheCacheDoesNotShow(t *testing.T) {
	renamed := node("n10")
	renamed.Labels[nodeKey] = "n9"
	for row, back := range map[string]*corev1.Node{"by name": {ObjectMeta: metav1.ObjectMeta{Name: "n9"}}, "by label": renamed} {
		for _, forget := range []bool{false, true} {
			r := newReaperRig(forget, volume("n9"))
			r.Cached = newReaperRig(forget, volume("n9")).api
			if err := r.api.Create(t.Context(), back.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			r.later(t, time.Hour)
			if len(r.driver.deleted) > 0 || !r.isThere(t) {
				t.Errorf("%s, forget %v: DeleteVolume %q, there: %v", row, forget, r.driver.deleted, r.isThere(t))
			}
		}
	}
}

// A volume that changed after the last read is not deleted: it no longer belongs to a removed node,
// or its PersistentVolume was created again.
func TestDeletionIsConfirmed(t *testing.T) {
	for row, change := range map[string]func(*reaperRig){
		"the next look found its node": func(r *reaperRig) { r.volumes = nil },
		"its place is another":         func(r *reaperRig) { r.replace(t, volume("n1")) },
		"it was made again":            func(r *reaperRig) { r.replace(t, volume("n9", func(pv *corev1.PersistentVolume) { pv.UID = "v" })) },
	} {
		r := newReaperRig(false, volume("n9"))
		_ = r.look(t.Context())
		r.clock.Step(time.Hour)
		if err := r.look(t.Context()); err != nil || len(r.volumes) != 1 {
			t.Fatalf("%d volumes, %v", len(r.volumes), err)
		}
		change(r)
		if _, err := r.Client().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "h"}); err == nil || len(r.driver.deleted) > 0 {
			t.Errorf("%s: %v, DeleteVolume %q", row, err, r.driver.deleted)
		}
	}
}

// replace has another PersistentVolume under the name.
func (r *reaperRig) replace(t *testing.T, by *corev1.PersistentVolume) {
	t.Helper()
	was := volume("n9")
	was.Finalizers = nil
	if err := errors.Join(r.api.Update(t.Context(), was), r.api.Delete(t.Context(), was), r.api.Create(t.Context(), by)); err != nil {
		t.Fatal(err)
	}
}

// A node that comes back, and goes again, begins anew.
func TestNodeThatComesBack(t *testing.T) {
	r := newReaperRig(true, volume("n9"))
	r.later(t, 50*time.Minute)
	back := node("n9")
	if err := r.api.Create(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	r.later(t, 20*time.Minute)
	if err := r.api.Delete(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	if r.later(t, 50*time.Minute); !r.isThere(t) {
		t.Error("reclaimed 50 minutes after the node was removed again")
	}
	if r.later(t, 10*time.Minute); r.isThere(t) {
		t.Error("not reclaimed after an hour")
	}
}

// N-12: the journals of removed nodes go, unless they may say something of a volume in the backend.
func TestJournalsOfRemovedNodes(t *testing.T) {
	text, err := intent.Encode([]intent.Entry{{UID: "x", VolumeName: "pvc-x", Request: &csi.CreateVolumeRequest{Name: "pvc-x"}}})
	if err != nil {
		t.Fatal(err)
	}
	lease := func(name, node, text string) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: "system", Name: name, UID: types.UID(name), Labels: map[string]string{names.LabelManagedBy: names.ManagedByPurser},
			Annotations: map[string]string{names.AnnIntentsNode: node, names.AnnIntents: text},
		}}
	}
	for _, tc := range []struct {
		forget bool
		want   []string
	}{
		{false, []string{"purser-intents-csi-example-n1", "purser-intents-csi-example-n8", "purser-intents-csi-example-old", "purser-intents-other-n9"}},
		{true, []string{"purser-intents-csi-example-n1", "purser-intents-csi-example-old", "purser-intents-other-n9"}},
	} {
		r := newReaperRig(tc.forget, lease("purser-intents-csi-example-n1", "n1", ""), lease("purser-intents-csi-example-n9", "n9", ""),
			lease("purser-intents-csi-example-n8", "n8", text), lease("purser-intents-csi-example-old", "", ""),
			lease("purser-intents-other-n9", "n9", ""))
		r.later(t, time.Hour)
		var left coordinationv1.LeaseList
		if err := r.api.List(t.Context(), &left); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range left.Items {
			got = append(got, left.Items[i].Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("forget %v: left are %q, want %q", tc.forget, got, tc.want)
		}
	}
}
