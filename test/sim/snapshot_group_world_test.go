package sim

import (
	"context"
	"errors"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/snapshot"
	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
)

// groupHalves are the controllers of groups in both halves of the snapshotter.
type groupHalves struct {
	controller *reconcile.Loop[keyOfSnapshot, snapshotting.Group, snapshotting.Action]
	sidecar    *reconcile.Loop[string, snapshotting.GroupContent, snapshotting.ContentAction]
	made       map[string]int // groups that were ever made, by name
	sources    []string       // volumes of the last group that was made
}

// restartGroups starts a new process of the controllers of groups. It returns that of contents.
func (w *snapshotWorld) restartGroups(c *snapshot.Controller, cfg snapshot.SidecarConfig) *snapshot.GroupSidecar {
	controller := c.Groups()
	controller.FollowMembers()
	naming := snapshotting.Naming{Prefix: "groupsnapshot", Length: -1}
	if w.mutant.fresh {
		naming.Prefix = cfg.Naming.Prefix
	}
	sidecar := snapshot.NewGroupSidecar(snapshot.GroupSidecarConfig{SidecarConfig: cfg, Groups: groupDriver{w: w}, Naming: naming})
	w.groups.controller, w.groups.sidecar = controller.Loop(), sidecar.Loop()
	return sidecar
}

func (w *snapshotWorld) groupObjects() (all []client.Object) {
	for _, o := range objectsOf(w, &groupv1.VolumeGroupSnapshot{}) {
		all = append(all, o)
	}
	for _, o := range objectsOf(w, &groupv1.VolumeGroupSnapshotContent{}) {
		all = append(all, o)
	}
	return all
}

// roundOfGroups works on each group and each content of one once.
func (w *snapshotWorld) roundOfGroups() {
	for _, group := range objectsOf(w, &groupv1.VolumeGroupSnapshot{}) {
		_, _ = w.groups.controller.Reconcile(w.t.Context(), client.ObjectKeyFromObject(group))
	}
	for _, content := range objectsOf(w, &groupv1.VolumeGroupSnapshotContent{}) {
		_, _ = w.groups.sidecar.Reconcile(w.t.Context(), content.Name)
	}
}

// groupDriver is the group controller service of the driver. A group is known by its name.
type groupDriver struct {
	csi.GroupControllerClient
	w *snapshotWorld
}

// CreateVolumeGroupSnapshot implements csi.GroupControllerClient.
func (d groupDriver) CreateVolumeGroupSnapshot(
	_ context.Context, r *csi.CreateVolumeGroupSnapshotRequest, _ ...grpc.CallOption,
) (answer *csi.CreateVolumeGroupSnapshotResponse, err error) {
	w := d.w
	err = w.step(func() error {
		w.created++
		if w.groups.made[r.GetName()] == 0 {
			w.groups.made[r.GetName()]++
			w.groups.sources = slices.Sorted(slices.Values(r.GetSourceVolumeIds()))
			for _, volume := range r.GetSourceVolumeIds() {
				w.snapshots[r.GetName()+"/"+volume] = "id-" + r.GetName() + "/" + volume
			}
		}
		if w.timeouts > 0 {
			w.timeouts--
			return status.Error(codes.DeadlineExceeded, "still at it")
		}
		w.unready--
		group := &csi.VolumeGroupSnapshot{GroupSnapshotId: "id-" + r.GetName(), ReadyToUse: w.unready < 0}
		for _, volume := range r.GetSourceVolumeIds() {
			group.Snapshots = append(group.Snapshots, &csi.Snapshot{
				SnapshotId: "id-" + r.GetName() + "/" + volume, SourceVolumeId: volume, SizeBytes: 1, ReadyToUse: w.unready < 0,
				GroupSnapshotId: group.GroupSnapshotId,
			})
		}
		answer = &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: group}
		return nil
	})
	if errors.Is(err, errLost) {
		err = status.Error(codes.Unavailable, "the connection broke")
	}
	return answer, err
}

// DeleteVolumeGroupSnapshot implements csi.GroupControllerClient. A group whose VolumeGroupSnapshot
// is not being deleted is lost.
func (d groupDriver) DeleteVolumeGroupSnapshot(
	_ context.Context, r *csi.DeleteVolumeGroupSnapshotRequest, _ ...grpc.CallOption,
) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	w := d.w
	if w.mutant.keeps {
		return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
	}
	err := w.step(func() error {
		w.deleted++
		for _, group := range objectsOf(w, &groupv1.VolumeGroupSnapshot{}) {
			if r.GetGroupSnapshotId() == "id-groupsnapshot-"+string(group.UID) && group.DeletionTimestamp == nil {
				w.wrong = append(w.wrong, "the group was deleted, and its VolumeGroupSnapshot is not being deleted")
			}
		}
		for name, id := range w.snapshots {
			if slices.Contains(r.GetSnapshotIds(), id) {
				delete(w.snapshots, name)
			}
		}
		return nil
	})
	if errors.Is(err, errLost) {
		err = status.Error(codes.Unavailable, "the connection broke")
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, err
}

// furnishGroup makes the class, two claims that the selector of the group selects and one that it
// does not.
func (w *snapshotWorld) furnishGroup(work snapshotWork) {
	w.groups.made = map[string]int{}
	class := &groupv1.VolumeGroupSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Driver: "d", DeletionPolicy: work.policy, Parameters: work.parameters}
	w.create(class)
	for _, name := range []string{"one", "two", "other"} {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{"part": name}},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
		}
		w.create(claim)
		claim.Status.Phase = corev1.ClaimBound
		if err := w.server.Client().Status().Update(w.t.Context(), claim); err != nil {
			w.t.Fatal(err)
		}
		w.create(&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef:               &corev1.ObjectReference{Namespace: "n", Name: name, UID: claim.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}},
			},
		})
	}
}
