package sources

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// localRig is a provisioner in the process of the snapshot-controller.
type localRig struct {
	*Controller
	t        *testing.T
	clock    *clocktesting.FakeClock
	state    source.State
	requests []source.Request
	flushed  error
	reads    int
	restored int
}

func newLocalRig(t *testing.T, edits ...func(*source.State)) *localRig {
	t.Helper()
	r := &localRig{t: t, clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "u"}}
	r.state = source.State{
		Ref: snapshotRef(vs), Snapshot: vs, Cached: true,
		Content: &snapshotv1.VolumeSnapshotContent{Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: "d"}},
	}
	for _, edit := range edits {
		edit(&r.state)
	}
	api := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(vs.DeepCopy()).Build()
	together := handoff.NewSnapshots(r.clock)
	together.OnRestored(func(types.NamespacedName) { r.restored++ })
	r.Controller = New(Config{
		Settings: reconcile.Settings{Clock: r.clock}, Live: readCounter{api, &r.reads}, Writer: api, Driver: "d", Together: together,
		Requests: func(context.Context) ([]source.Request, error) { return r.requests, nil },
		Flushed:  func(context.Context) error { return r.flushed },
	})
	r.local.lead(r.clock.Now().Add(-time.Hour))
	return r
}

// readCounter counts the reads of the API server.
type readCounter struct {
	client.Reader
	reads *int
}

func (c readCounter) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	*c.reads++
	return c.Reader.Get(ctx, key, into, opts...)
}

func (r *localRig) begin(claim types.UID) error {
	return r.Protect(r.t.Context(), provision.ProtectSource{Source: r.state}, claim)
}

func (r *localRig) letGo() bool {
	r.t.Helper()
	ok, _ := r.LetGo(r.t.Context(), r.state.Ref.NamespacedName, "u", "h")
	return ok
}

func restoreOf(handle string) source.Request {
	return source.Request{Volume: "pvc-c", Content: &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: handle},
	}}}
}

// isFinalized reports whether the API server has the finalizer.
func (r *localRig) isFinalized() bool {
	now := &snapshotv1.VolumeSnapshot{}
	if err := r.Writer.(client.Client).Get(r.t.Context(), r.state.Ref.NamespacedName, now); err != nil {
		r.t.Fatal(err)
	}
	return source.IsProtected(now, r.state.Ref)
}

// FL-21: a call keeps its VolumeSnapshot without a write and without a read, and one of them is first: the
// call, or the end of the snapshot.
func TestRestoreKeepsItsSourceInMemory(t *testing.T) {
	r := newLocalRig(t)
	if err := r.begin("c"); err != nil || r.isFinalized() || r.reads != 0 {
		t.Errorf("%v, finalizer: %v, %d reads", err, r.isFinalized(), r.reads)
	}
	if users, err := r.Users(t.Context(), r.state.Ref.NamespacedName, "h"); err != nil || len(users) != 1 || r.letGo() {
		t.Errorf("a call in flight: %q, %v, or it was released", users, err)
	}
	r.requests = []source.Request{restoreOf("other"), restoreOf("h")}
	r.Done("c")
	if users, err := r.Users(t.Context(), r.state.Ref.NamespacedName, "h"); err != nil || len(users) != 1 || r.letGo() || r.restored != 1 {
		t.Errorf("an unresolved request: %q, %v, or it was released; told %d times", users, err, r.restored)
	}
	r.requests = nil
	r.Resolved()
	if r.restored != 2 {
		t.Error("the end of the request is not told")
	}
	if r.flushed = errors.New("busy"); r.letGo() {
		t.Error("the next leader may find the request")
	}
	r.flushed = nil
	if err := r.begin("d"); err != nil {
		t.Errorf("it was not released: %v", err)
	}
	r.Done("d")
	if !r.letGo() {
		t.Error("nothing uses it")
	}
	if err := r.begin("e"); !errors.Is(err, errLetGo) {
		t.Errorf("it was released: %v", err)
	}
	r.state.Snapshot.UID = "v" // another one of its name
	if err := r.begin("f"); err != nil {
		t.Error(err)
	}
}

// What needs the finalizer all the same, and what is read soon after the start.
func TestRestoreThatIsNotLocal(t *testing.T) {
	for name, edit := range map[string]func(*source.State){
		"of another driver": func(s *source.State) { s.Content.Spec.Driver = "e" },
		"a member of a group": func(s *source.State) {
			s.Content.Status = &snapshotv1.VolumeSnapshotContentStatus{VolumeGroupSnapshotHandle: new("g")}
		},
	} {
		r := newLocalRig(t, edit)
		r.state.Cached = false
		if err := r.begin("c"); err != nil || !r.isFinalized() {
			t.Errorf("%s: %v, finalizer: %v", name, err, r.isFinalized())
		}
	}
	r := newLocalRig(t)
	r.local.lead(r.clock.Now())
	if err := r.begin("c"); err != nil || r.reads != 1 {
		t.Errorf("soon after the start: %v, %d reads", err, r.reads)
	}
	r.state.Snapshot.UID = "v"
	if err := r.begin("d"); !errors.Is(err, errReplaced) {
		t.Errorf("the API server has another one: %v", err)
	}
}
