package snapshotting

import (
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
)

// members makes the VolumeSnapshots and contents of a dynamic group, for each snapshot that the
// driver lists (SN-G3). Statuses that exist are not written again: their one writer from then on is
// who follows the member. The objects of a pre-provisioned group are its user's (SN-G6).
func members(s Group) (actions []GroupAction) {
	if !isDynamic(s.Snapshot) || groupHandle(s.Content) == "" {
		return nil
	}
	for _, m := range s.Members {
		if m.Content != nil && m.Content.Status != nil && m.Snapshot != nil && m.Snapshot.Status != nil {
			continue
		}
		snapshot, content := MemberNames(s.Snapshot.UID, m.Info.VolumeHandle)
		actions = append(actions, CreateMember{
			Snapshot:      newMember(s, m, snapshot),
			Content:       newMemberContent(s, m, content, snapshot),
			ContentStatus: memberStatus(s.Content, m.Info),
			SnapshotStatus: &snapshotv1.VolumeSnapshotStatus{
				BoundVolumeSnapshotContentName: new(content), VolumeGroupSnapshotName: new(s.Snapshot.Name),
			},
		})
	}
	return actions
}

func newMember(s Group, m Member, name string) *snapshotv1.VolumeSnapshot {
	claim := ""
	if len(m.Volumes) == 1 && m.Volumes[0].Spec.ClaimRef != nil {
		claim = m.Volumes[0].Spec.ClaimRef.Name
	}
	return &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Snapshot.Namespace, Name: name,
			Finalizers: []string{names.FinalizerSnapshotInGroup},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: names.GroupSnapshotGroup + "/v1", Kind: "VolumeGroupSnapshot", Name: s.Snapshot.Name,
				UID: s.Snapshot.UID,
			}},
		},
		Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}},
	}
}

// newMemberContent has no uid of its VolumeSnapshot yet, which is known once that is created. Its
// source is the volume: the sidecars take a content with the source snapshotHandle for one that a
// user made, and write its status without the size and the group's handle (SN-A9).
func newMemberContent(s Group, m Member, name, snapshot string) *snapshotv1.VolumeSnapshotContent {
	c := s.Content
	annotations := map[string]string{names.AnnGroupSnapshotHandle: groupHandle(c)}
	if secret := c.Annotations[names.AnnGroupDeletionSecretName]; secret != "" {
		annotations[names.AnnSnapshotDeletionSecretName] = secret
		annotations[names.AnnSnapshotDeletionSecretNamespace] = c.Annotations[names.AnnGroupDeletionSecretNamespace]
	}
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: annotations,
			Finalizers:  []string{names.FinalizerSnapshotContent},
		},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{
				Kind: "VolumeSnapshot", Namespace: s.Snapshot.Namespace, Name: snapshot,
			},
			DeletionPolicy: c.Spec.DeletionPolicy, Driver: c.Spec.Driver,
			Source: snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new(m.Info.VolumeHandle)},
		},
	}
	if s.SourceMode && len(m.Volumes) == 1 {
		content.Spec.SourceVolumeMode = m.Volumes[0].Spec.VolumeMode
	}
	return content
}

// memberStatus is what the driver said of one snapshot of the group.
func memberStatus(
	c *groupv1.VolumeGroupSnapshotContent, info groupv1.VolumeSnapshotInfo,
) *snapshotv1.VolumeSnapshotContentStatus {
	return &snapshotv1.VolumeSnapshotContentStatus{
		SnapshotHandle: new(info.SnapshotHandle), CreationTime: info.CreationTime, RestoreSize: info.RestoreSize,
		ReadyToUse: new(ptr.Deref(info.ReadyToUse, false)), VolumeGroupSnapshotHandle: new(groupHandle(c)),
	}
}
