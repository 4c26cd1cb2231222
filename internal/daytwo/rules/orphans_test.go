package daytwo

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

func nodeOf(name string, inUse ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, u := range inUse {
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, corev1.UniqueVolumeName(u))
	}
	return n
}

func attachmentOf(pv, node string, age time.Duration) storagev1.VolumeAttachment {
	return storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name:              names.AttachmentName("h-"+pv, "d.example.com", node),
			CreationTimestamp: metav1.NewTime(now.Add(-age)),
		},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "d.example.com", NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv},
		},
	}
}

func contentOf(name, snapshot, handle string) snapshotv1.VolumeSnapshotContent {
	c := snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
	}}
	c.Spec.Driver, c.Spec.DeletionPolicy = "d.example.com", snapshotv1.VolumeSnapshotContentDelete
	c.Spec.VolumeSnapshotRef = corev1.ObjectReference{Namespace: "shop", Name: snapshot, UID: "uid-" + "s"}
	if handle != "" {
		c.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: &handle}
	}
	return c
}

// well is a cluster in which everything is referred to.
func well() OrphanInput {
	snapshot := snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", UID: "uid-s"}}
	sum := sha256.Sum256([]byte("h-pv-a"))
	return OrphanInput{
		Now: now, Grace: 10 * time.Minute, Machine: "m",
		Volumes:     []corev1.PersistentVolume{volumeOf("pv-a", "a", nil)},
		Claims:      []corev1.PersistentVolumeClaim{claimOf("a", "1Gi", nil)},
		Pods:        []corev1.Pod{podOf("p", "n", "a")},
		Nodes:       []corev1.Node{nodeOf("n", "kubernetes.io/csi/d.example.com^h-pv-a", "kubernetes.io/nfs/other")},
		Attachments: []storagev1.VolumeAttachment{attachmentOf("pv-a", "n", time.Hour)},
		Contents:    []snapshotv1.VolumeSnapshotContent{contentOf("c", "s", "snap")},
		Snapshots:   []snapshotv1.VolumeSnapshot{snapshot},
		Drivers: []DriverList{{
			Driver: "d.example.com", Volumes: []DriverVolume{{Handle: "h-pv-a"}},
			Snapshots: []DriverVolume{{Handle: "snap"}},
		}},
		Mounts: []Mount{
			{Path: "/k/pods/uid-p/volumes/kubernetes.io~csi/pv-a/mount", Pod: "uid-p"},
			{Path: "/k/plugins/x", Driver: "d.example.com", Digest: hex.EncodeToString(sum[:])},
		},
	}
}

// Each kind of orphan is found with its proof, and nothing else is.
func TestFindOrphans(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*OrphanInput)
		want   string // kind and name; empty for nothing
		proof  string
	}{
		"well": {func(*OrphanInput) {}, "", ""},
		"a volume of the driver": {func(in *OrphanInput) {
			in.Drivers[0].Volumes = append(in.Drivers[0].Volumes, DriverVolume{Handle: "lost", Bytes: 5})
		}, "volume of the driver lost", "none of the 1 PersistentVolumes has spec.csi.driver d.example.com"},
		"a volume of a migrated plugin": {func(in *OrphanInput) {
			in.Drivers[0] = DriverList{Driver: "ebs.csi.aws.com", Volumes: []DriverVolume{{Handle: "vol-1"}}}
			in.Contents = nil
			in.Volumes = append(in.Volumes, volumeOf("pv-b", "a", func(pv *corev1.PersistentVolume) {
				pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.Name = "uid-a", "a"
				pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
					AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"},
				}
			}))
		}, "", ""},
		"a snapshot of the driver": {func(in *OrphanInput) {
			in.Drivers[0].Snapshots = append(in.Drivers[0].Snapshots, DriverVolume{Handle: "lost", Source: "h"})
		}, "snapshot of the driver lost", "has the handle lost"},
		"a volume whose claim is gone": {func(in *OrphanInput) {
			in.Claims = nil
			in.Volumes[0].Status = corev1.PersistentVolumeStatus{
				Phase: corev1.VolumeReleased, LastPhaseTransitionTime: new(metav1.NewTime(now.Add(-time.Hour))),
			}
		}, "PersistentVolume pv-a", "PersistentVolumeClaim shop/a with uid uid-a of spec.claimRef: not found"},
		"one that was released just now": {func(in *OrphanInput) {
			in.Claims = nil
			in.Volumes[0].Status = corev1.PersistentVolumeStatus{
				Phase: corev1.VolumeReleased, LastPhaseTransitionTime: new(metav1.NewTime(now)),
			}
		}, "", ""},
		"a volume whose claim was created again": {
			func(in *OrphanInput) { in.Claims[0].UID = "other" }, "PersistentVolume pv-a", "its uid is other",
		},
		"a volume that no claim has taken": {func(in *OrphanInput) {
			in.Volumes = append(in.Volumes, volumeOf(
				"pv-free", "", func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = nil },
			))
		}, "PersistentVolume pv-free", "spec.claimRef is empty"},
		"one that a claim waits for": {func(in *OrphanInput) {
			in.Volumes = append(in.Volumes, volumeOf(
				"pv-b", "", func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = nil },
			))
			in.Claims = append(in.Claims, claimOf("b", "1Gi", nil))
		}, "", ""},
		"an attachment to a node that is gone": {
			func(in *OrphanInput) { in.Nodes = nil }, "VolumeAttachment csi-", "Node n of spec.nodeName: not found",
		},
		"an attachment of a volume that is gone": {func(in *OrphanInput) {
			in.Volumes, in.Drivers, in.Mounts, in.Nodes[0].Status.VolumesInUse = nil, nil, nil, nil
		}, "VolumeAttachment csi-", "PersistentVolume pv-a of spec.source.persistentVolumeName: not found"},
		"an attachment that no pod needs": {func(in *OrphanInput) {
			in.Pods, in.Mounts, in.Nodes[0].Status.VolumesInUse = nil, nil, nil
		}, "VolumeAttachment csi-", "none of the 0 Pods on node n uses PersistentVolumeClaim shop/a"},
		"one that the kubelet still uses": {func(in *OrphanInput) { in.Pods, in.Mounts = nil, nil }, "", ""},
		"one that is new": {func(in *OrphanInput) {
			in.Nodes, in.Attachments[0] = nil, attachmentOf("pv-a", "n", time.Minute)
		}, "", ""},
		"a content whose snapshot is gone": {
			func(in *OrphanInput) { in.Snapshots = nil }, "VolumeSnapshotContent c", "VolumeSnapshot shop/s: not found",
		},
		"a volume that only a node knows": {func(in *OrphanInput) {
			in.Nodes[0].Status.VolumesInUse = append(
				in.Nodes[0].Status.VolumesInUse, "kubernetes.io/csi/d.example.com^lost",
			)
		}, "volume in use on a node n", "status.volumesInUse has kubernetes.io/csi/d.example.com^lost"},
		"a mount for a pod that is gone": {func(in *OrphanInput) {
			in.Mounts = append(in.Mounts, Mount{Path: "/k/pods/lost", Pod: "lost"})
		}, "mount /k/pods/lost", "none of the 1 Pods has the uid lost"},
		"a staged volume that is gone": {func(in *OrphanInput) {
			in.Mounts = append(in.Mounts, Mount{Path: "/k/plugins/lost", Driver: "d.example.com", Digest: "0"})
		}, "mount /k/plugins/lost", "SHA-256 0"},
	} {
		in := well()
		tc.change(&in)
		r := FindOrphans(in)
		if tc.want == "" {
			if len(r.Orphans) > 0 || len(r.Unread) > 0 || r.ExitCode() != 0 {
				t.Errorf("%s: %+v, %v", name, r.Orphans, r.Unread)
			}
			continue
		}
		if len(r.Orphans) != 1 || !strings.HasPrefix(r.Orphans[0].Kind+" "+r.Orphans[0].Name, tc.want) ||
			!strings.Contains(strings.Join(r.Orphans[0].Proof, "\n"), tc.proof) || r.ExitCode() != ExitFound {
			t.Errorf("%s: %+v, want %s with %q", name, r.Orphans, tc.want, tc.proof)
		}
	}
}

// A kind that cannot be read does not make orphans of what its objects refer to.
func TestOrphansWithoutPermission(t *testing.T) {
	for kind, clear := range map[string]func(*OrphanInput){
		KindClaims: func(in *OrphanInput) { in.Claims = nil }, KindNodes: func(in *OrphanInput) { in.Nodes = nil },
		KindVolumes: func(in *OrphanInput) { in.Volumes = nil }, KindPods: func(in *OrphanInput) { in.Pods = nil },
		KindSnapshots: func(in *OrphanInput) { in.Snapshots = nil },
		KindContents:  func(in *OrphanInput) { in.Contents = nil },
	} {
		in := well()
		clear(&in)
		in.Missing = map[string]string{kind: "the permission to list them is missing"}
		r := FindOrphans(in)
		if len(r.Orphans) > 0 || len(r.Unread) == 0 || r.ExitCode() != ExitUnknown {
			t.Errorf("without %s: %+v, %v", kind, r.Orphans, r.Unread)
		}
	}
}

// What a driver lists counts if two comparisons in a row find no object for it.
func TestKeepSeen(t *testing.T) {
	list := func(handles ...string) OrphanInput {
		in := well()
		for _, h := range handles {
			in.Drivers[0].Volumes = append(in.Drivers[0].Volumes, DriverVolume{Handle: h})
		}
		return in
	}
	if HasUnknown(well()) || !HasUnknown(list("x")) {
		t.Error("HasUnknown")
	}
	kept := KeepSeen(list("x", "y"), list("x", "z")).Drivers[0].Volumes
	if !slices.EqualFunc(kept, []string{"h-pv-a", "x"}, func(v DriverVolume, h string) bool { return v.Handle == h }) {
		t.Errorf("%v", kept)
	}
}

func TestParseMount(t *testing.T) {
	for path, want := range map[string]Mount{
		"/k/pods/u/volumes/kubernetes.io~csi/pv/mount":                      {Pod: "u"},
		"/k/plugins/kubernetes.io/csi/d.example.com/0a/globalmount":         {Driver: "d.example.com", Digest: "0a"},
		"/k/pods/u/volumes/kubernetes.io~empty-dir/v":                       {},
		"/k/plugins/kubernetes.io/csi/volumeDevices/publish/pv/u":           {},
		"/elsewhere/pods/u/volumes/kubernetes.io~csi/pv/mount":              {},
		"/k/pods/u/volumes/kubernetes.io~csi/pv/mount/mounted-by-container": {},
	} {
		got, ok := ParseMount("/k/", path)
		if got.Path = ""; got != want || ok != (want != Mount{}) {
			t.Errorf("%s: %+v, %t", path, got, ok)
		}
	}
}
