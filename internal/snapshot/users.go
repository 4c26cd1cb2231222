package snapshot

import (
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// userOf returns the VolumeSnapshot that a content names, which is what its user sees, for events.
func userOf(content *snapshotv1.VolumeSnapshotContent) *snapshotv1.VolumeSnapshot {
	return &snapshotv1.VolumeSnapshot{ObjectMeta: metaOf(content.Spec.VolumeSnapshotRef)}
}

// groupUserOf returns the VolumeGroupSnapshot that a content names.
func groupUserOf(content *groupv1.VolumeGroupSnapshotContent) *groupv1.VolumeGroupSnapshot {
	return &groupv1.VolumeGroupSnapshot{ObjectMeta: metaOf(content.Spec.VolumeGroupSnapshotRef)}
}

func metaOf(ref corev1.ObjectReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}
