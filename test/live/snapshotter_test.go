package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/test/rolestest"
)

func (d *scriptedDriver) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	return d.snapshot(r)
}

func (d *scriptedDriver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if d.dropSnapshot != nil {
		d.dropSnapshot(r)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// snapshotKinds installs the custom resources of snapshots.
func (p liveCluster) snapshotKinds() {
	p.Helper()
	files := cluster.FindResources(filepath.Join("..", "..", "bin"))
	if len(files) == 0 {
		p.Skip("there are no custom resources in bin/crds; run `make cluster-tools`")
	}
	if err := p.server.Install(p.Context(), files...); err != nil {
		p.Fatal(err)
	}
}

// snapshotting returns a cluster with a snapshot-controller and a csi-snapshotter, each with its
// own permissions, and a bound claim.
func snapshotting(t *testing.T, d *scriptedDriver) (
	p liveCluster, claim *corev1.PersistentVolumeClaim, metrics func() map[string]*dto.MetricFamily,
) {
	t.Helper()
	p = newLiveCluster(t)
	p.snapshotKinds()
	d.name, d.capabilities = "csi.example", []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT}
	p.create(&snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class", Annotations: map[string]string{names.AnnDefaultSnapshotClass: "true"}}, Driver: d.name,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	})
	claim = p.boundPair("data", d.name)
	p.csiSnapshotter(append(slices.Clone(quickly), "--csi-address="+d.serve(t), "--retry-interval-start=100ms")...)
	metrics = p.snapshotController(quickly...)
	return p, claim, metrics
}

// csiSnapshotter starts the sidecar with the permissions that it ships with.
func (p liveCluster) csiSnapshotter(args ...string) {
	p.Helper()
	s := snapshotter.New()
	s.Version, s.API, s.Log = "test", p.as("csi-snapshotter"), (&rolestest.Log{}).Logger()
	p.begin(s, &s.Started, args)
}

// snapshotController starts the snapshot-controller with the permissions that it ships with. It
// returns a scrape of its metrics.
func (p liveCluster) snapshotController(args ...string) (metrics func() map[string]*dto.MetricFamily) {
	p.Helper()
	return p.snapshotControllerAs("snapshot-controller", args...)
}

// snapshotControllerAs starts it with the permissions of an account.
func (p liveCluster) snapshotControllerAs(
	account string, args ...string,
) (metrics func() map[string]*dto.MetricFamily) {
	p.Helper()
	c := snapshotter.NewController()
	c.Version, c.API, c.Log = "test", p.as(account), (&rolestest.Log{}).Logger()
	where := make(chan net.Addr, 1)
	c.Listened = func(a net.Addr) { where <- a }
	p.begin(c, &c.Started, args)
	address := sync.OnceValue(func() string { return fmt.Sprintf("http://%s/metrics", <-where) })
	return func() map[string]*dto.MetricFamily { return scrape(p.T, address()) }
}

// begin runs a role in the background and waits until its controllers have started.
func (p liveCluster) begin(role interface {
	AddFlags(f *pflag.FlagSet)
	Validate() error
	Run(ctx context.Context) error
}, tell *func(), args []string,
) {
	p.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	role.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		p.Fatal(err)
	}
	if err := role.Validate(); err != nil {
		p.Fatal(err)
	}
	started := make(chan struct{})
	*tell = func() { close(started) }
	rolestest.InBackground(p.T, role.Run)
	select {
	case <-started:
	case <-time.After(time.Minute):
		p.Fatal("the role does not start")
	}
}

func taken(r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId: "on " + r.GetName(), SourceVolumeId: r.GetSourceVolumeId(), SizeBytes: 1 << 30, ReadyToUse: true,
	}}, nil
}

func (p liveCluster) takes(name string) *snapshotv1.VolumeSnapshot {
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("data")}},
	}
	p.create(vs)
	return vs
}

func isUsable(vs *snapshotv1.VolumeSnapshot) bool {
	return vs.Status != nil && ptr.Deref(vs.Status.ReadyToUse, false)
}

// removeSnapshot deletes a snapshot, and waits until neither it, its content nor the claim's
// finalizer is left.
func (p liveCluster) removeSnapshot(vs *snapshotv1.VolumeSnapshot, claim *corev1.PersistentVolumeClaim) {
	p.Helper()
	if err := p.user.Delete(p.Context(), vs.DeepCopy()); err != nil {
		p.Fatal(err)
	}
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "snapcontent-" + string(vs.UID)}}
	for _, o := range []client.Object{vs, content} {
		rolestest.Eventually(p.T, "nothing is left of "+o.GetName(), func() error {
			if err := p.user.Get(p.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("still there"), err)
			}
			return nil
		})
	}
	await(p, "the claim is free", claim, func(c *corev1.PersistentVolumeClaim) bool {
		return !slices.Contains(c.Finalizers, names.FinalizerSnapshotClaim)
	})
}

// A snapshot with the default class on a real API server, under upstream's permissions: one
// CreateSnapshot and one DeleteSnapshot.
func TestSnapshotterTakesAndDeletes(t *testing.T) {
	d := &scriptedDriver{snapshot: taken}
	p, claim, metrics := snapshotting(t, d)
	vs := p.takes("first")
	await(p, "the snapshot is ready", vs, isUsable)
	if vs.Status.RestoreSize.String() != "1Gi" || vs.Status.CreationTime.Year() < 2000 || *vs.Spec.VolumeSnapshotClassName != "class" {
		t.Errorf("SN-Q10, SN-H7: %+v, class %v", vs.Status, vs.Spec.VolumeSnapshotClassName)
	}
	await(p, "SN-N5: the claim is free", claim, func(c *corev1.PersistentVolumeClaim) bool {
		return !slices.Contains(c.Finalizers, names.FinalizerSnapshotClaim)
	})
	rolestest.Eventually(t, "the events", func() error { return p.events(vs, "CreatingSnapshot", "SnapshotCreated", "SnapshotReady") })
	p.removeSnapshot(vs, claim)
	if d.called("CreateSnapshot") != 1 || d.called("DeleteSnapshot") != 1 {
		t.Errorf("%d calls of CreateSnapshot, %d of DeleteSnapshot; want one each", d.called("CreateSnapshot"), d.called("DeleteSnapshot"))
	}
	rolestest.Eventually(t, "SN-M1: the operations are measured", func() error {
		got := map[string]uint64{}
		families := metrics()
		for _, line := range families["snapshot_controller_operation_total_seconds"].GetMetric() {
			var labels []string
			for _, label := range line.GetLabel() { // sorted by name
				labels = append(labels, label.GetValue())
			}
			got[strings.Join(labels, " ")] += line.GetHistogram().GetSampleCount()
		}
		want := map[string]uint64{
			"csi.example CreateSnapshot success dynamic": 1, "csi.example CreateSnapshotAndReady success dynamic": 1,
			"csi.example DeleteSnapshot success dynamic": 1,
		}
		if left := value(families["snapshot_controller_operations_in_flight"]); !maps.Equal(got, want) || left != 0 {
			return fmt.Errorf("%v, %v in flight", got, left)
		}
		return nil
	})
}

// SN-K1: a snapshot that is deleted while its outcome is unknown is created again first, so that
// its handle is known and it is deleted.
func TestSnapshotterDeletesAfterATimeout(t *testing.T) {
	answers := make(chan error, 1)
	d := &scriptedDriver{snapshot: func(r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
		if err := <-answers; err != nil {
			return nil, err
		}
		return taken(r)
	}}
	p, claim, _ := snapshotting(t, d)
	vs := p.takes("late")
	answers <- status.Error(codes.DeadlineExceeded, "still at it")
	await(p, "the error is in the status", vs, func(vs *snapshotv1.VolumeSnapshot) bool { return vs.Status != nil && vs.Status.Error != nil })
	if err := p.user.Delete(t.Context(), vs.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	close(answers)
	rolestest.Eventually(t, "the snapshot is deleted", func() error {
		if d.called("DeleteSnapshot") == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	await(p, "the claim is free", claim, func(c *corev1.PersistentVolumeClaim) bool {
		return !slices.Contains(c.Finalizers, names.FinalizerSnapshotClaim)
	})
	rolestest.Eventually(t, "the VolumeSnapshot is gone", func() error {
		if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(vs), vs); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("still there"), err)
		}
		return nil
	})
}
