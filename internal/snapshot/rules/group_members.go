package snapshotting

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
)

// MemberNames returns the names of the VolumeSnapshot and of the content for the snapshot of one
// volume of a group (SN-N15).
func MemberNames(group types.UID, volumeHandle string) (snapshot, content string) {
	sum := sha256.Sum256([]byte(string(group) + volumeHandle))
	return "snapshot-" + hex.EncodeToString(sum[:]), "snapcontent-" + hex.EncodeToString(sum[:])
}

// Selector returns which claims belong to a group: labels and expressions, both. A selector that
// would select all claims of the namespace is an error (SN-H1).
func Selector(g *groupv1.VolumeGroupSnapshot) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(g.Spec.Source.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.source.selector: %w", err)
	}
	if selector.Empty() {
		return nil, fmt.Errorf("spec.source.selector is empty and would select every claim of the namespace; " +
			"give it matchLabels or matchExpressions")
	}
	return selector, nil
}

// members makes the VolumeSnapshots and contents of a dynamic group, for each snapshot that the
// driver lists (SN-G3). Statuses that exist are not written again: their one writer from then on is
// who follows the member. The objects of a pre-provisioned group are its user's (SN-G6).
func (s view) members() (actions []Action) {
	if !s.object.dynamic || s.content.handle == "" {
		return nil
	}
	for _, m := range s.Members {
		if m.Content != nil && m.Content.Status != nil && m.Snapshot != nil && m.Snapshot.Status != nil {
			continue
		}
		snapshot, content := MemberNames(s.object.UID, m.Info.VolumeHandle)
		actions = append(actions, CreateMember{
			Snapshot: s.newMember(m, snapshot),
			Content:  s.newMemberContent(m, content, snapshot),
			ContentStatus: &snapshotv1.VolumeSnapshotContentStatus{
				SnapshotHandle: new(m.Info.SnapshotHandle), CreationTime: m.Info.CreationTime,
				RestoreSize: m.Info.RestoreSize,
				ReadyToUse:  new(ptr.Deref(m.Info.ReadyToUse, false)), VolumeGroupSnapshotHandle: new(s.content.handle),
			},
			SnapshotStatus: &snapshotv1.VolumeSnapshotStatus{
				BoundVolumeSnapshotContentName: new(content), VolumeGroupSnapshotName: new(s.object.Name),
			},
		})
	}
	return actions
}

func (s view) newMember(m Member, name string) *snapshotv1.VolumeSnapshot {
	claim := ""
	if len(m.Volumes) == 1 && m.Volumes[0].Spec.ClaimRef != nil {
		claim = m.Volumes[0].Spec.ClaimRef.Name
	}
	return &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.object.Namespace, Name: name,
			Finalizers: []string{names.FinalizerSnapshotInGroup},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: names.GroupSnapshotGroup + "/v1", Kind: "VolumeGroupSnapshot", Name: s.object.Name,
				UID: s.object.UID,
			}},
		},
		Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}},
	}
}

// newMemberContent has no uid of its VolumeSnapshot yet, which is known once that is created. Its
// source is the volume: the sidecars take a content with the source snapshotHandle for one that a
// user made, and write its status without the size and the group's handle (SN-A9).
func (s view) newMemberContent(m Member, name, snapshot string) *snapshotv1.VolumeSnapshotContent {
	c := s.content
	annotations := map[string]string{names.AnnGroupSnapshotHandle: c.handle}
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
				Kind: "VolumeSnapshot", Namespace: s.object.Namespace, Name: snapshot,
			},
			DeletionPolicy: c.policy, Driver: c.driver,
			Source: snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new(m.Info.VolumeHandle)},
		},
	}
	if s.SourceMode && len(m.Volumes) == 1 {
		content.Spec.SourceVolumeMode = m.Volumes[0].Spec.VolumeMode
	}
	return content
}
