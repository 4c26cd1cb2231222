package snapshotting

import (
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// begin makes the content of a dynamic snapshot (SN-Q2, SN-Q8). What protects comes first: the
// finalizers of the VolumeSnapshot and of its source, then the content, which has its finalizer
// from the start.
func begin(s Snapshot, now time.Time) Verdict {
	vs := s.Snapshot
	if problem, bad := sourceProblem(s); bad {
		return fail(s, now, problem)
	}
	class, problem, bad := chooseClass(s)
	if bad {
		return fail(s, now, problem)
	}
	if driver := s.Volume.Spec.CSI.Driver; class.Driver != driver { // SN-H5
		return fail(
			s,
			now,
			contentFailure("VolumeSnapshotClass %q is for the driver %q, and the volume of claim %q belongs to %q",
				class.Name, class.Driver, s.Claim.Name, driver),
		)
	}
	content, problem, bad := newContent(s, class)
	if bad {
		return fail(s, now, problem)
	}
	finalizers := []string{names.FinalizerSnapshotSource}
	if class.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete {
		finalizers = append(finalizers, names.FinalizerSnapshotBound)
	}
	named := ""
	if vs.Spec.VolumeSnapshotClassName == nil {
		named = class.Name
	}
	actions := prepare(s, finalizers, named)
	if !hasFinalizer(s.Claim, names.FinalizerSnapshotClaim) {
		actions = append(actions, ProtectClaim{})
	}
	actions = append(actions, CreateContent{content})
	return do{
		Finding: verdict.Because(
			verdict.SnapshotStarted,
			"Waiting for a snapshot %s/%s to be created by the CSI driver.",
			vs.Namespace,
			vs.Name,
		),
		Actions: append(actions, WriteStatus{copied(vs, content)}),
		Then: wait{Finding: verdict.Because(
			verdict.SnapshotAwaitsDriver, "the driver has not taken the snapshot yet",
		)},
	}
}

func hasFinalizer(o metav1.Object, finalizer string) bool {
	return slices.Contains(o.GetFinalizers(), finalizer)
}

// sourceProblem says why no snapshot can be taken of the claim.
func sourceProblem(s Snapshot) (problem verdict.Finding, bad bool) {
	name, claim := SourceClaim(s.Snapshot), s.Claim
	switch {
	case claim == nil:
		return contentFailure(
			"snapshot controller failed to update %s/%s: the claim %q does not exist",
			s.Key.Namespace,
			s.Key.Name,
			name,
		), true
	case claim.DeletionTimestamp != nil && !hasFinalizer(claim, names.FinalizerSnapshotClaim):
		return contentFailure("the claim %q is being deleted", name), true
	case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
		return contentFailure("the claim %q is not yet bound to a PV, will not attempt to take a snapshot", name), true
	}
	if text := VolumeProblem(claim, s.Volume); text != "" {
		return contentFailure("%s", text), true
	}
	return verdict.Finding{}, false
}

// VolumeProblem says why no snapshot can be taken of the volume of a bound claim; empty if one can.
func VolumeProblem(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
	name := claim.Spec.VolumeName
	switch {
	case pv == nil:
		return fmt.Sprintf("the volume %q of claim %q does not exist", name, claim.Name)
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID:
		return fmt.Sprintf("the volume %q is not bound to claim %q", name, claim.Name)
	case pv.Spec.CSI == nil:
		return fmt.Sprintf("the volume %q of claim %q is not a CSI volume", name, claim.Name)
	}
	return ""
}

// chooseClass is SN-Q2.
func chooseClass(s Snapshot) (class *snapshotv1.VolumeSnapshotClass, problem verdict.Finding, bad bool) {
	if name := s.Snapshot.Spec.VolumeSnapshotClassName; name != nil {
		if s.Class == nil {
			return nil, verdict.Because(
				verdict.SnapshotClassNotFound,
				"Failed to get snapshot class with error volumesnapshotclass %q not found",
				*name,
			), true
		}
		return s.Class, verdict.Finding{}, false
	}
	class, text := DefaultClass("snapshot", s.Defaults, s.Volume.Spec.CSI.Driver,
		func(c *snapshotv1.VolumeSnapshotClass) string { return c.Driver })
	if class == nil {
		return nil, verdict.Because(verdict.SnapshotClassUnclear, "%s", text), true
	}
	return class, verdict.Finding{}, false
}

// nodeOf returns the first node, by name, that the volume can be reached from, whose sidecar takes
// the snapshot (SN-L1). It is empty for a volume that is not bound to nodes.
func nodeOf(s Snapshot) string {
	affinity := s.Volume.Spec.NodeAffinity
	if !s.Distributed || affinity == nil || affinity.Required == nil {
		return ""
	}
	first := ""
	for i := range s.Nodes {
		node := &s.Nodes[i]
		if objects.MatchesNode(affinity.Required, node.Name, node.Labels) && (first == "" || node.Name < first) {
			first = node.Name
		}
	}
	return first
}

func newContent(
	s Snapshot, class *snapshotv1.VolumeSnapshotClass,
) (content *snapshotv1.VolumeSnapshotContent, problem verdict.Finding, bad bool) {
	vs := s.Snapshot
	content = &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{
			Name:       "snapcontent-" + string(vs.UID),
			Finalizers: []string{names.FinalizerSnapshotContent},
		},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{
				APIVersion: names.SnapshotGroup + "/v1", Kind: "VolumeSnapshot", Namespace: vs.Namespace,
				Name: vs.Name, UID: vs.UID,
				ResourceVersion: vs.ResourceVersion,
			},
			DeletionPolicy: class.DeletionPolicy, Driver: class.Driver, VolumeSnapshotClassName: new(class.Name),
			Source: snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new(s.Volume.Spec.CSI.VolumeHandle)},
		},
	}
	if node := nodeOf(s); node != "" {
		content.Labels = map[string]string{names.LabelSnapshotNode: node}
	}
	if s.SourceMode {
		content.Spec.SourceVolumeMode = s.Volume.Spec.VolumeMode
	}
	secret, wrong := secretref.Snapshotter(
		class.Parameters, secretref.SnapshotScope{Snapshot: s.Key, Content: content.Name},
	)
	if wrong != nil {
		return nil, contentFailure(
			"VolumeSnapshotClass %q: parameter %s %s", class.Name, wrong.Parameter, wrong.Text,
		), true
	}
	if secret.Name != "" { // SN-N10
		content.Annotations = map[string]string{
			names.AnnSnapshotDeletionSecretName:      secret.Name,
			names.AnnSnapshotDeletionSecretNamespace: secret.Namespace,
		}
	}
	return content, verdict.Finding{}, false
}
