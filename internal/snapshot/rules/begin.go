package snapshotting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// begin makes the content of a dynamic snapshot (SN-Q2, SN-Q8, SN-G1). What protects comes first: the
// finalizers of the object and of its source, then the content, which has its finalizer from the
// start.
func (s view) begin() Verdict {
	if unread := s.unreadSource(); unread != nil {
		return unread
	}
	if problem, bad := s.sourceProblem(); bad {
		return s.fail(problem)
	}
	class, problem, bad := s.chooseClass()
	if bad {
		return s.fail(problem)
	}
	created, problem, bad := s.newContent(class)
	if bad {
		return s.fail(problem)
	}
	named := ""
	if s.object.class == nil {
		named = class.Name
	}
	actions := s.protect(class.policy, named)
	if !s.k.isGroup() {
		actions = append(actions, s.protectClaim(class.driver)...)
	}
	actions = append(actions, CreateContent{created})
	then := wait{Finding: verdict.Because(
		verdict.SnapshotAwaitsDriver, "the driver has not taken the %s yet", s.k.noun,
	)}
	if s.isUnnamed() {
		then.Until = s.now.Add(nameDelay)
	} else {
		actions = append(actions, WriteStatus{
			s.copied(&contentView{ObjectMeta: &metav1.ObjectMeta{Name: created.GetName()}}),
		})
	}
	return do{
		Finding: verdict.Because(s.k.started, "Waiting for a %s %s to be created by the CSI driver.", s.k.noun, s.Key),
		Actions: actions, Then: then,
	}
}

// nameDelay is how long the status of a VolumeSnapshot does without the name of its content while the
// driver has not answered: one write has both, if the driver is quick. No component needs the name
// earlier. It follows from the uid, and the provisioner and backup tools wait for a snapshot that was
// taken. A user sees it after this time.
const nameDelay = 2 * time.Second

// isUnnamed reports whether the status says nothing yet. That of a group is written at once: upstream's
// controller, if it takes over, finds the content of a group by the status alone (SN-H4).
func (s view) isUnnamed() bool {
	return !s.k.isGroup() && s.object.dynamic && s.object.status.Content == nil && s.object.status.Error == nil
}

// nameDue returns when the status of an unnamed VolumeSnapshot is to name a content without an answer of
// the driver; zero for now. The clock of the API server may be another one.
func (s view) nameDue() time.Time {
	due := s.content.CreationTimestamp.Add(nameDelay)
	if !s.isUnnamed() || !s.content.bare || !due.After(s.now) || due.After(s.now.Add(nameDelay)) {
		return time.Time{}
	}
	return due
}

// unreadSource asks for the volume of the source and the nodes that it may be on (SN-W7), or for the
// sources of a group; nil if they were read.
//
// A cached volume that belongs to this very claim is enough: neither its handle nor the volume of a bound
// claim changes, and the write that protects the claim is refused if the claim is another one by now. A
// claim that has the finalizer already is not written. From any other volume, or none, nothing follows, since
// the cache may be stale. A claim that is kept in memory is not written either: it is read, until no other
// process can have released what the cache still has.
func (s view) unreadSource() Verdict {
	switch {
	case s.k.isGroup() && s.object.selector == nil && s.lacks(ReadSources):
		return s.ask(verdict.Ref{What: ReadSources})
	case s.lacks(ReadVolume) && s.mayBeAnother():
		return s.ask(verdict.Ref{What: ReadVolume, Name: s.Claim.Spec.VolumeName})
	case s.lacks(ReadClaim) && s.HoldsSince < holdsAlone && s.willHold():
		return s.ask(verdict.Ref{What: ReadClaim, Namespace: s.Claim.Namespace, Name: s.Claim.Name})
	case s.Distributed && s.Volume != nil && s.Volume.Spec.NodeAffinity != nil && s.lacks(ReadNodes):
		return s.ask(verdict.Ref{What: ReadNodes})
	}
	return nil
}

// mayBeAnother reports whether the cached volume of the source may not be that of the claim.
func (s view) mayBeAnother() bool {
	return s.Claim != nil && s.Claim.Spec.VolumeName != "" &&
		(volumeProblem(s.Claim, s.Volume) != "" || hasFinalizer(s.Claim, names.FinalizerSnapshotClaim))
}

// holdsAlone is for how long the protection of claims must have led in this process until a cached claim
// can be held: it has not released the claim, and the cache lacks what an earlier leader released.
const holdsAlone = time.Minute

// mayHold reports whether the claim can be kept in memory: the finalizer of the protection keeps it, which
// this process alone removes, and no other process takes the snapshot.
func (s view) mayHold(driver string) bool {
	return s.MayHold && driver != "" && driver == s.Together && !s.k.isGroup() &&
		hasFinalizer(s.Claim, names.FinalizerPVCProtection)
}

// willHold reports whether the claim of a new snapshot is to be kept in memory.
func (s view) willHold() bool {
	return s.Claim != nil && s.Volume != nil && s.Volume.Spec.CSI != nil && !s.isProtected(s.Claim) &&
		s.mayHold(s.Volume.Spec.CSI.Driver)
}

// isProtected reports whether a claim cannot go while the snapshot is taken.
func (s view) isProtected(claim metav1.Object) bool {
	return s.Held || hasFinalizer(claim, names.FinalizerSnapshotClaim)
}

// protectClaim keeps the source until the snapshot is ready.
func (s view) protectClaim(driver string) []Action {
	switch {
	case s.isProtected(s.Claim):
		return nil
	case s.mayHold(driver):
		return []Action{HoldClaim{}}
	}
	return []Action{ProtectClaim{}}
}

// protectAgain keeps the source of a snapshot that another process began, and kept in its memory.
func (s view) protectAgain() []Action {
	c := s.content
	if s.k.isGroup() || !s.object.dynamic || s.object.isReady() || c.isReady() || s.Claim == nil ||
		s.Claim.DeletionTimestamp != nil && !s.mayHold(c.driver) {
		return nil
	}
	return s.protectClaim(c.driver)
}

func hasFinalizer(o metav1.Object, finalizer string) bool {
	return slices.Contains(o.GetFinalizers(), finalizer)
}

// sources are what the snapshot is taken of.
func (s view) sources() []Source {
	if s.k.isGroup() {
		return s.Sources
	}
	return []Source{{s.Claim, s.Volume}}
}

// sourceProblem says why no snapshot can be taken of the sources: each must be bound to a volume of
// one and the same CSI driver.
func (s view) sourceProblem() (problem verdict.Finding, bad bool) {
	all := s.sources()
	switch {
	case s.object.selector != nil:
		return verdict.Because(s.k.invalid, "%v", s.object.selector), true
	case len(all) == 0:
		return s.k.failedContent("the selector selects no claim in namespace %s", s.Key.Namespace), true
	case all[0].Claim == nil:
		return s.k.failedContent("snapshot controller failed to update %s: the claim %q does not exist",
			s.Key, s.object.claim), true
	}
	for _, source := range all {
		claim, pv := source.Claim, source.Volume
		switch {
		case claim.DeletionTimestamp != nil && (s.k.isGroup() || !s.isProtected(claim)):
			return s.k.failedContent("the claim %q is being deleted", claim.Name), true
		case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
			return s.k.failedContent(
				"the claim %q is not yet bound to a PV, will not attempt to take a snapshot", claim.Name), true
		}
		if text := volumeProblem(claim, pv); text != "" {
			return s.k.failedContent("%s", text), true
		}
		if first := all[0].Volume.Spec.CSI.Driver; first != pv.Spec.CSI.Driver { // SN-G7
			return s.k.failedContent("the volumes of the claims %q and %q belong to the drivers %q and %q; select the "+
				"claims of one driver", all[0].Claim.Name, claim.Name, first, pv.Spec.CSI.Driver), true
		}
	}
	return verdict.Finding{}, false
}

// volumeProblem says why no snapshot can be taken of the volume of a bound claim; empty if one can.
func volumeProblem(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
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

// chooseClass returns the class that the object names, or the one default class of the driver
// (SN-Q2). It must be for the driver of the volumes (SN-H5).
func (s view) chooseClass() (class *classView, problem verdict.Finding, bad bool) {
	source := s.sources()[0]
	driver := source.Volume.Spec.CSI.Driver
	if name := s.object.class; name != nil {
		switch {
		case s.class == nil:
			return nil, verdict.Because(s.k.classNotFound, "Failed to get %s class with error %s %q not found",
				s.k.noun, strings.ToLower(s.k.classKind()), *name), true
		case s.class.driver != driver:
			return nil, s.k.failedContent("%s %q is for the driver %q, and the volume of claim %q belongs to %q",
				s.k.classKind(), s.class.Name, s.class.driver, source.Claim.Name, driver), true
		}
		return s.class, verdict.Finding{}, false
	}
	defaults := slices.DeleteFunc(s.classes, func(c *classView) bool {
		return c.Annotations[s.k.defaultClass] != "true" || c.driver != driver // SN-N12
	})
	const failed = "Failed to set default %s class with error "
	switch len(defaults) {
	case 1:
		return defaults[0], verdict.Finding{}, false
	case 0:
		return nil, verdict.Because(s.k.classUnclear, failed+"cannot find default %[1]s class", s.k.noun), true
	}
	return nil, verdict.Because(
		s.k.classUnclear, failed+"%d default %[1]s classes were found", s.k.noun, len(defaults),
	), true
}

// nodeOf returns the first node, by name, that the volume can be reached from, whose sidecar takes
// the snapshot (SN-L1). It is empty for a volume that is not bound to nodes.
func (s view) nodeOf() string {
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

// newContent returns the content that is created for the object.
func (s view) newContent(class *classView) (created metav1.Object, problem verdict.Finding, bad bool) {
	o := s.object
	meta := metav1.ObjectMeta{Name: s.k.prefix + string(o.UID), Finalizers: []string{s.k.contentFinalizer}}
	ref := corev1.ObjectReference{
		APIVersion: s.k.apiGroup + "/v1", Kind: s.k.objectKind(), Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		ResourceVersion: o.ResourceVersion,
	}
	secret, wrong := s.k.createSecret(class.parameters, secretref.SnapshotScope{Snapshot: s.Key, Content: meta.Name})
	if wrong != nil {
		return nil, s.k.failedContent("%s %q: parameter %s %s",
			s.k.classKind(), class.Name, wrong.Parameter, wrong.Text), true
	}
	if secret.Name != "" { // SN-N10
		meta.Annotations = map[string]string{s.k.secretName: secret.Name, s.k.secretNamespace: secret.Namespace}
	}
	if s.k.isGroup() {
		c := &groupv1.VolumeGroupSnapshotContent{ObjectMeta: meta, Spec: groupv1.VolumeGroupSnapshotContentSpec{
			VolumeGroupSnapshotRef: ref, DeletionPolicy: class.policy, Driver: class.driver,
			VolumeGroupSnapshotClassName: new(class.Name),
		}}
		for _, source := range s.Sources {
			c.Spec.Source.VolumeHandles = append(c.Spec.Source.VolumeHandles, source.Volume.Spec.CSI.VolumeHandle)
		}
		return c, verdict.Finding{}, false
	}
	if node := s.nodeOf(); node != "" {
		meta.Labels = map[string]string{names.LabelSnapshotNode: node}
	}
	c := &snapshotv1.VolumeSnapshotContent{ObjectMeta: meta, Spec: snapshotv1.VolumeSnapshotContentSpec{
		VolumeSnapshotRef: ref, DeletionPolicy: class.policy, Driver: class.driver,
		VolumeSnapshotClassName: new(class.Name),
		Source: snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new(
			s.Volume.Spec.CSI.VolumeHandle,
		)},
	}}
	if s.SourceMode {
		c.Spec.SourceVolumeMode = s.Volume.Spec.VolumeMode
	}
	return c, verdict.Finding{}, false
}
