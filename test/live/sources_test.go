package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/names"
	driverrole "github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// copying is a cluster with the binder, the provisioner, both halves of the snapshotter and the
// built-in driver with loop images, each with its own permissions.
type copying struct {
	liveCluster
	node    csi.NodeClient
	metrics func() map[string]*dto.MetricFamily // of the provisioner, where the test reads them
}

func newCopying(t *testing.T, provisionerArgs ...string) copying {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: volumes that can be copied are loop devices")
	}
	c := copying{liveCluster: newLiveCluster(t)}
	socket := loopDriver(t)
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: socket, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c.node = conn.Node()
	binder, _, _ := c.controllers()
	provisioner, _ := liveProvisioner(t, c.as("csi-provisioner"), socket,
		append([]string{"--leader-election-namespace=purser-system", "--retry-interval-start=100ms"}, provisionerArgs...)...)
	beside := snapshotter.New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	beside.AddFlags(flags)
	if err := errors.Join(flags.Parse(append(slices.Clone(quickly), "--csi-address="+socket, "--snapshot-controller")), beside.Validate()); err != nil {
		t.Fatal(err)
	}
	beside.Version, beside.API, beside.Log = "test", c.server.RESTConfig(), (&rolestest.Log{}).Logger()
	rolestest.InBackground(t, binder.Run)
	rolestest.InBackground(t, provisioner.Run)
	c.snapshotKinds() // H-38: after the start of the provisioner
	rolestest.InBackground(t, beside.Run)
	c.create(
		&storagev1.StorageClass{ObjectMeta: metav1Name("deck"), Provisioner: driver.DefaultName},
		&snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1Name("shots"), Driver: driver.DefaultName, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete},
	)
	return c
}

// loopDriver starts the built-in driver with loop images, and returns its socket.
func loopDriver(t *testing.T) string {
	t.Helper()
	dir := scripted.SocketDir(t)
	d := driverrole.New()
	d.Log, d.Notice, d.Version = (&rolestest.Log{}).Logger(), func(string) {}, "test"
	d.Endpoint, d.StateDir, d.NodeID, d.Backend = "unix://"+filepath.Join(dir, "csi.sock"), filepath.Join(dir, "state"), "node", "loopfile"
	rolestest.InBackground(t, d.Run)
	return d.Endpoint
}

// claimOf creates a claim with a source; nil for none.
func (c copying) claimOf(name, size string, from *corev1.TypedObjectReference) *corev1.PersistentVolumeClaim {
	c.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("deck"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, DataSourceRef: from,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	c.create(claim)
	return claim
}

func fromClaim(name string) *corev1.TypedObjectReference {
	return &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: name}
}

func fromSnapshot(name string) *corev1.TypedObjectReference {
	return &corev1.TypedObjectReference{APIGroup: new(names.SnapshotGroup), Kind: "VolumeSnapshot", Name: name}
}

// snapshot takes a snapshot of a claim, and waits until it is ready.
func (c copying) snapshot(name, claim string) *snapshotv1.VolumeSnapshot {
	c.Helper()
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: snapshotv1.VolumeSnapshotSpec{
			VolumeSnapshotClassName: new("shots"), Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim},
		},
	}
	c.create(vs)
	await(c.liveCluster, "the snapshot is ready", vs, isUsable)
	return vs
}

// use mounts the volume of a bound claim, as a node does, and runs do in it.
func (c copying) use(claim *corev1.PersistentVolumeClaim, do func(dir string) error) {
	c.Helper()
	await(c.liveCluster, claim.Name+" is bound", claim, isBound)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(claim.Spec.VolumeName)}
	if err := c.user.Get(c.Context(), client.ObjectKeyFromObject(pv), pv); err != nil {
		c.Fatal(err)
	}
	how, err := csispec.CapabilityOf(pv, csispec.CapabilityOptions{MultiWriters: true})
	if err != nil {
		c.Fatal(err)
	}
	id, dir := pv.Spec.CSI.VolumeHandle, c.TempDir()
	staging, target := filepath.Join(dir, "staging"), filepath.Join(dir, "target")
	if err := os.Mkdir(staging, 0o700); err != nil {
		c.Fatal(err)
	}
	ctx := c.Context()
	_, err = c.node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, VolumeCapability: how, VolumeContext: pv.Spec.CSI.VolumeAttributes,
	})
	if err == nil {
		_, err = c.node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
			VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: how, VolumeContext: pv.Spec.CSI.VolumeAttributes,
		})
	}
	if err == nil {
		err = do(target)
	}
	_, unpublish := c.node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target})
	_, unstage := c.node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staging})
	if err := errors.Join(err, unpublish, unstage); err != nil {
		c.Fatal(claim.Name, err)
	}
}

func (c copying) write(claim *corev1.PersistentVolumeClaim, text string) {
	c.Helper()
	c.use(claim, func(dir string) error { return os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600) })
}

// has fails the test unless the volume has the text, and a filesystem as large as its claim.
func (c copying) has(claim *corev1.PersistentVolumeClaim, text string) {
	c.Helper()
	c.use(claim, func(dir string) error {
		got, err := os.ReadFile(filepath.Join(dir, "file"))
		if err == nil && string(got) != text {
			err = fmt.Errorf("the file has %q, want %q", got, text)
		}
		return err
	})
}

// remove deletes objects, and waits until they are gone.
func (c copying) remove(objects ...client.Object) {
	c.Helper()
	for _, o := range objects {
		if err := c.user.Delete(c.Context(), o); client.IgnoreNotFound(err) != nil {
			c.Fatal(err)
		}
	}
	for _, o := range objects {
		c.gone(o)
	}
}

func (c copying) gone(o client.Object) {
	c.Helper()
	rolestest.Eventually(c.T, o.GetName()+" is gone", func() error {
		if err := c.user.Get(c.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("still there with %v", o.GetFinalizers()), err)
		}
		return nil
	})
}

// nothingLeft fails the test unless all volumes, contents and finalizers are removed.
func (c copying) nothingLeft() {
	c.Helper()
	rolestest.Eventually(c.T, "nothing is left", func() error {
		var volumes corev1.PersistentVolumeList
		var contents snapshotv1.VolumeSnapshotContentList
		if err := errors.Join(c.user.List(c.Context(), &volumes), c.user.List(c.Context(), &contents)); err != nil {
			return err
		}
		if len(volumes.Items)+len(contents.Items) > 0 {
			return fmt.Errorf("%d PersistentVolumes and %d contents", len(volumes.Items), len(contents.Items))
		}
		return nil
	})
}

func (c copying) unprotected(o client.Object, finalizer string) {
	c.Helper()
	rolestest.Eventually(c.T, o.GetName()+" has lost its finalizer", func() error {
		if err := c.user.Get(c.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if slices.Contains(o.GetFinalizers(), finalizer) {
			return fmt.Errorf("it has %v", o.GetFinalizers())
		}
		return nil
	})
}

// A file is written, a snapshot taken, the file changed: a restore has the old content, a clone the
// current one, and both are larger than their source. H-38: the kinds of snapshots are installed
// after the provisioner has started.
func TestRestoreAndClone(t *testing.T) {
	c := newCopying(t)
	data := c.claimOf("data", "32Mi", nil)
	c.write(data, "old")
	shot := c.snapshot("shot", "data")
	c.write(data, "current")
	restored, cloned := c.claimOf("restored", "64Mi", fromSnapshot("shot")), c.claimOf("cloned", "48Mi", fromClaim("data"))
	c.has(restored, "old")
	c.has(cloned, "current")
	c.unprotected(data, names.FinalizerCloneSource)
	c.unprotected(shot, names.FinalizerRestoreSource)
	c.remove(data, shot, restored, cloned)
	c.nothingLeft()
}
