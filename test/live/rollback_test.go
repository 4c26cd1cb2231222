package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/rolestest"
)

// rollbacks are the calls in the middle of which a sidecar is killed and another takes its place.
var rollbacks = []struct{ role, method string }{
	{"csi-provisioner", "CreateVolume"},
	{"csi-provisioner", "DeleteVolume"},
	{"csi-attacher", "ControllerPublishVolume"},
	{"csi-attacher", "ControllerUnpublishVolume"},
	{"csi-resizer", "ControllerExpandVolume"},
	{"csi-snapshotter", "CreateSnapshot"},
	{"csi-snapshotter", "DeleteSnapshot"},
}

// SM-117: an image is changed in the middle of work, in both directions. The driver has done what the
// call asks for, and the first program is killed before it has the answer. The other program, under the
// same account, repeats the call and goes on to the end of the object's life: nothing is left in the
// driver, and no finalizer.
func TestRollback(t *testing.T) {
	c := readCharts(t)
	p := newLiveCluster(t)
	p.snapshotKinds()
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("growing"), Provisioner: "grows.example", AllowVolumeExpansion: new(true)})
	p.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}})
	for i, tc := range rollbacks {
		for _, back := range []bool{true, false} {
			name := map[bool]string{true: tc.method + "/from ours to upstream's", false: tc.method + "/from upstream's to ours"}[back]
			t.Run(name, func(t *testing.T) {
				p := p
				p.T = t
				r := &rollback{backend: newBackend(), method: tc.method, done: make(chan struct{})}
				r.chartRun = chartRun{liveCluster: p, id: fmt.Sprintf("back-%d-%t", i, back), log: &lockedBuffer{}, repeats: true, row: chartRow{
					Role: tc.role, Args: "--csi-address=ADDRESS --timeout=5s --leader-election-namespace=NS",
				}}
				upstream := r.upstreams()
				r.start()
				r.script()
				kubeconfig := r.account(c.rules(t, r.row))
				r.row.Args += " --kubeconfig=" + kubeconfig // upstream's do not all read the environment variable
				programs := []string{upstream, r.ours()}
				if back {
					slices.Reverse(programs)
				}
				r.change(programs, kubeconfig)
				r.work()
				r.nothingIsLeft()
			})
		}
	}
}

// SM-117, H-1: a claim is deleted after the CreateVolume of ours was cut off, and upstream's program,
// which has no journal, takes the place of ours. The volume waits in the journal: when ours is back it
// is deleted. In the other direction upstream leaves the volume in the driver without a record.
func TestRollbackAndADeletedClaim(t *testing.T) {
	p := newLiveCluster(t)
	p.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}})
	r := &rollback{backend: newBackend(), method: "CreateVolume", done: make(chan struct{})}
	r.chartRun = chartRun{liveCluster: p, id: "deleted", log: &lockedBuffer{}, repeats: true, row: chartRow{
		Role: "csi-provisioner", Args: "--csi-address=ADDRESS --timeout=5s --leader-election-namespace=NS",
	}}
	upstream := r.upstreams()
	r.start()
	r.script()
	kubeconfig := r.account(readCharts(t).rules(t, r.row))
	r.row.Args += " --kubeconfig=" + kubeconfig
	ours := r.ours()

	entered := make(chan struct{})
	r.driver.after = func(ctx context.Context, method string) error {
		if method == r.method {
			r.once.Do(func() { close(entered); <-ctx.Done() })
		}
		return ctx.Err()
	}
	first := r.begin(ours, kubeconfig)
	class := r.waitingClass("deleted-amid", r.driver.name, nil)
	claim := r.claim("deleted-amid", &class.Name)
	claim.Annotations = map[string]string{names.AnnStorageProvisioner: r.driver.name, names.AnnSelectedNode: "node"}
	if err := r.user.Update(r.Context(), claim); err != nil {
		t.Fatal(err)
	}
	select {
	case <-entered:
	case <-time.After(time.Minute):
		t.Fatal("CreateVolume was not called: ", r.log)
	}
	_ = errors.Join(first.Process.Kill(), first.Wait())
	before := claim.DeepCopy()
	claim.Finalizers = nil // no controller of protection runs
	if err := r.user.Patch(r.Context(), claim, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	r.remove(claim)

	second := r.begin(upstream, kubeconfig)
	r.provisions() // upstream's works, for another claim
	_ = errors.Join(second.Process.Kill(), second.Wait())
	if volumes := r.volumes(); volumes != 1 {
		t.Errorf("the driver has %d volumes while upstream's runs, want that of the deleted claim", volumes)
	}

	third := r.begin(ours, kubeconfig)
	t.Cleanup(func() { _ = errors.Join(third.Process.Kill(), third.Wait()) })
	rolestest.Eventually(t, "the volume of the deleted claim is deleted", func() error {
		if volumes := r.volumes(); volumes != 0 {
			return fmt.Errorf("the driver has %d volumes", volumes)
		}
		return nil
	})
}

// rollback is the change of one sidecar.
type rollback struct {
	chartRun

	*backend

	method string
	once   sync.Once
	done   chan struct{} // closed when the second program runs
}

// backend is what a driver holds.
type backend struct {
	sync.Mutex

	attached, snapshotIDs map[string]bool
}

func newBackend() *backend {
	return &backend{attached: map[string]bool{}, snapshotIDs: map[string]bool{}}
}

func (b *backend) set(in map[string]bool, key string, holds bool) {
	b.Lock()
	defer b.Unlock()
	if in[key] = holds; !holds {
		delete(in, key)
	}
}

// upstreams returns upstream's program.
func (r *rollback) upstreams() string {
	r.Helper()
	built, err := filepath.Abs(filepath.Join("..", "..", "bin", "upstream-"+r.row.Role))
	if err == nil {
		_, err = os.Stat(built)
	}
	if err != nil {
		r.Skip("upstream's program is not built: ", err)
	}
	return built
}

// script has the driver keep what it is asked for.
func (r *rollback) script() {
	d := r.driver
	d.publish = func(q *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
		r.set(r.attached, q.GetVolumeId(), true)
		return &csi.ControllerPublishVolumeResponse{}, nil
	}
	d.unpublish = func(q *csi.ControllerUnpublishVolumeRequest) error {
		r.set(r.attached, q.GetVolumeId(), false)
		return nil
	}
	d.snapshot = func(q *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
		r.set(r.snapshotIDs, "on "+q.GetName(), true)
		return taken(q)
	}
	d.dropSnapshot = func(q *csi.DeleteSnapshotRequest) { r.set(r.snapshotIDs, q.GetSnapshotId(), false) }
}

// change starts the first program, and the second when the first has been killed amid its call.
func (r *rollback) change(programs []string, kubeconfig string) {
	r.Helper()
	entered := make(chan struct{})
	r.driver.after = func(ctx context.Context, method string) error {
		if method == r.method {
			r.once.Do(func() { close(entered); <-ctx.Done() })
		}
		return ctx.Err()
	}
	first := r.begin(programs[0], kubeconfig)
	var second *exec.Cmd
	stop := make(chan struct{})
	go func() {
		defer close(r.done)
		select {
		case <-entered:
		case <-stop:
		}
		_ = first.Process.Kill()
		_ = first.Wait() // it was killed
		second = r.begin(programs[1], kubeconfig)
	}()
	r.Cleanup(func() {
		close(stop)
		<-r.done
		_ = second.Process.Kill()
		_ = second.Wait() // it was killed
		if r.Failed() {
			r.Log(r.log.String())
		}
	})
}

// volumes returns how many volumes the driver has.
func (r *rollback) volumes() int {
	r.driver.mu.Lock()
	defer r.driver.mu.Unlock()
	return len(r.driver.zones)
}

// nothingIsLeft checks that the second program did the end, and that the driver and the API have nothing.
func (r *rollback) nothingIsLeft() {
	r.Helper()
	select {
	case <-r.done:
	default:
		r.Errorf("%s was never called", r.method)
	}
	if calls := r.driver.called(r.method); calls < 2 {
		r.Errorf("%d calls of %s: the second program did not repeat it", calls, r.method)
	}
	volumes := r.volumes()
	r.Lock()
	defer r.Unlock()
	if volumes+len(r.attached)+len(r.snapshotIDs) > 0 {
		r.Errorf("the driver has %d volumes, and %v attached, and snapshots %v", volumes, r.attached, r.snapshotIDs)
	}
	if r.row.Role == "csi-attacher" { // its finalizer is on the volume
		pv := &corev1.PersistentVolume{ObjectMeta: metav1Name("pv-" + r.id)}
		if err := r.user.Get(r.Context(), client.ObjectKeyFromObject(pv), pv); err != nil {
			r.Fatal(err)
		}
		before := pv.DeepCopy()
		pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(f string) bool { return f == names.FinalizerPVProtection })
		if err := r.user.Patch(r.Context(), pv, client.MergeFrom(before)); err != nil {
			r.Fatal(err)
		}
		r.remove(pv)
	}
}
