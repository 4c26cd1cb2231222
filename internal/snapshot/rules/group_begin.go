package snapshotting

import (
	"slices"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// groupBegin makes the content of a dynamic group (SN-G1). The finalizer of the group comes first, and
// the content has its finalizer from the start.
func groupBegin(s Group, now time.Time) GroupVerdict {
	if _, err := Selector(s.Snapshot); err != nil {
		return groupFail(s, now, verdict.Because(verdict.GroupInvalid, "%v", err))
	}
	if problem, bad := groupSourceProblem(s); bad {
		return groupFail(s, now, problem)
	}
	class, problem, bad := groupChooseClass(s)
	if bad {
		return groupFail(s, now, problem)
	}
	content, problem, bad := groupNewContent(s, class)
	if bad {
		return groupFail(s, now, problem)
	}
	named := ""
	if s.Snapshot.Spec.VolumeGroupSnapshotClassName == nil {
		named = class.Name
	}
	var actions []GroupAction
	if named != "" || !groupHasFinalizer(s.Snapshot, names.FinalizerGroupSnapshot) {
		actions = append(actions, PrepareGroup{named})
	}
	actions = append(actions, GroupCreateContent{content})
	s.Content = content
	return groupDo{
		Finding: verdict.Because(
			verdict.GroupStarted, "Waiting for a group snapshot %s to be created by the CSI driver.", s.Key,
		),
		Actions: append(actions, GroupWriteStatus{groupCopied(s)}),
		Then: groupWait{Finding: verdict.Because(
			verdict.SnapshotAwaitsDriver, "the driver has not taken the snapshots yet",
		)},
	}
}

func groupHasFinalizer(o metav1.Object, finalizer string) bool {
	return slices.Contains(o.GetFinalizers(), finalizer)
}

func createFailure(format string, args ...any) verdict.Finding {
	return verdict.Because(
		verdict.GroupContentCreateFailed, "Failed to create group snapshot content with error "+format, args...,
	)
}

// groupSourceProblem says why no group can be taken of the selected claims: each must be bound to a
// volume of one and the same CSI driver.
func groupSourceProblem(s Group) (problem verdict.Finding, bad bool) {
	if len(s.Sources) == 0 {
		return createFailure("the selector selects no claim in namespace %s", s.Key.Namespace), true
	}
	first := ""
	for _, source := range s.Sources {
		claim, pv := source.Claim, source.Volume
		switch {
		case claim.DeletionTimestamp != nil:
			return createFailure("the claim %q is being deleted", claim.Name), true
		case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
			return createFailure("the claim %q is not yet bound to a PV", claim.Name), true
		}
		if text := VolumeProblem(claim, pv); text != "" {
			return createFailure("%s", text), true
		}
		switch {
		case first == "":
			first = pv.Spec.CSI.Driver
		case first != pv.Spec.CSI.Driver: // SN-G7
			return createFailure("the volumes of the claims %q and %q belong to the drivers %q and %q; select the "+
				"claims of one driver",
				s.Sources[0].Claim.Name, claim.Name, first, pv.Spec.CSI.Driver), true
		}
	}
	return verdict.Finding{}, false
}

// groupChooseClass returns the class that the group names, or the one default class of the driver.
func groupChooseClass(s Group) (class *groupv1.VolumeGroupSnapshotClass, problem verdict.Finding, bad bool) {
	driver := s.Sources[0].Volume.Spec.CSI.Driver
	if name := s.Snapshot.Spec.VolumeGroupSnapshotClassName; name != nil {
		switch {
		case s.Class == nil:
			return nil, verdict.Because(verdict.GroupClassNotFound,
				"Failed to get group snapshot class with error volumegroupsnapshotclass %q not found", *name), true
		case s.Class.Driver != driver:
			return nil, createFailure("VolumeGroupSnapshotClass %q is for the driver %q, and the volumes belong to %q",
				s.Class.Name, s.Class.Driver, driver), true
		}
		return s.Class, verdict.Finding{}, false
	}
	class, text := DefaultClass("group snapshot", s.Defaults, driver,
		func(c *groupv1.VolumeGroupSnapshotClass) string { return c.Driver })
	if class == nil {
		return nil, verdict.Because(verdict.GroupClassUnclear, "%s", text), true
	}
	return class, verdict.Finding{}, false
}

func groupNewContent(
	s Group, class *groupv1.VolumeGroupSnapshotClass,
) (content *groupv1.VolumeGroupSnapshotContent, problem verdict.Finding, bad bool) {
	g := s.Snapshot
	content = &groupv1.VolumeGroupSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{
			Name: "groupsnapcontent-" + string(g.UID), Finalizers: []string{names.FinalizerGroupContent},
		},
		Spec: groupv1.VolumeGroupSnapshotContentSpec{
			VolumeGroupSnapshotRef: corev1.ObjectReference{
				APIVersion: names.GroupSnapshotGroup + "/v1", Kind: "VolumeGroupSnapshot", Namespace: g.Namespace,
				Name: g.Name, UID: g.UID,
				ResourceVersion: g.ResourceVersion,
			},
			DeletionPolicy: class.DeletionPolicy, Driver: class.Driver, VolumeGroupSnapshotClassName: new(class.Name),
		},
	}
	for _, source := range s.Sources {
		content.Spec.Source.VolumeHandles = append(
			content.Spec.Source.VolumeHandles, source.Volume.Spec.CSI.VolumeHandle,
		)
	}
	secret, wrong := secretref.GroupSnapshotter(
		class.Parameters, secretref.GroupScope{Group: s.Key, Content: content.Name},
	)
	if wrong != nil {
		return nil, createFailure(
			"VolumeGroupSnapshotClass %q: parameter %s %s", class.Name, wrong.Parameter, wrong.Text,
		), true
	}
	if secret.Name != "" { // SN-N10
		content.Annotations = map[string]string{
			names.AnnGroupDeletionSecretName: secret.Name, names.AnnGroupDeletionSecretNamespace: secret.Namespace,
		}
	}
	return content, verdict.Finding{}, false
}
