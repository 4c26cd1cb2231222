package snapshotting

import (
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// DecideSnapshot says what the snapshot-controller does for a VolumeSnapshot and its content.
func DecideSnapshot(s Snapshot, now time.Time) Verdict {
	v := decide(s, now)
	var protect []Action // SN-V3
	for _, content := range s.Unprotected {
		if s.Snapshot == nil || !isUnbound(content) { // one that is bound now gets its finalizer next
			protect = append(protect, ProtectContent{content})
		}
	}
	if len(protect) == 0 {
		return v
	}
	if next, acts := v.(do); acts {
		next.Actions = append(protect, next.Actions...)
		return next
	}
	return do{
		Finding: verdict.Because(verdict.SnapshotAwaitsDriver, "the VolumeSnapshotContent gets its finalizer"),
		Actions: protect,
		Then:    v,
	}
}

func decide(s Snapshot, now time.Time) Verdict {
	vs := s.Snapshot
	switch {
	case vs == nil: // nothing is deleted for it: the content may be a copied one (SN-V4)
		return nothing{Finding: verdict.Because(verdict.SnapshotIdle, "the VolumeSnapshot does not exist")}
	case isGroupMember(vs):
		return decideMember(s, now)
	case vs.DeletionTimestamp != nil:
		return removeSnapshot(s)
	case (SourceClaim(vs) == "") == (ptr.Deref(vs.Spec.Source.VolumeSnapshotContentName, "") == ""):
		return fail(
			s,
			now,
			verdict.Because(
				verdict.SnapshotInvalid,
				"exactly one of spec.source.persistentVolumeClaimName and volumeSnapshotContentName must be set",
			),
		)
	case IsReady(vs):
		return keepReady(s, now)
	case s.Content == nil && SourceClaim(vs) == "":
		return fail(
			s,
			now,
			verdict.Because(verdict.SnapshotContentAbsent, "VolumeSnapshotContent %q does not exist", ContentName(vs)),
		)
	case s.Content == nil && vs.Status != nil && vs.Status.CreationTime != nil:
		// The snapshot was taken. One that is taken now would have other data under the old name.
		return fail(s, now, verdict.Because(verdict.SnapshotContentAbsent, "VolumeSnapshotContent is missing"))
	case s.Content == nil:
		return begin(s, now)
	}
	return follow(s, now)
}

// keepReady is SN-Q4.
func keepReady(s Snapshot, now time.Time) Verdict {
	switch {
	case s.Content == nil:
		return fail(s, now, verdict.Because(verdict.SnapshotContentAbsent, "VolumeSnapshotContent is missing"))
	case !refersTo(s.Content, s.Snapshot):
		return fail(
			s,
			now,
			verdict.Because(
				verdict.SnapshotNotBoundBack,
				"VolumeSnapshotContent %q is bound to %s/%s with uid %q",
				s.Content.Name,
				s.Content.Spec.VolumeSnapshotRef.Namespace,
				s.Content.Spec.VolumeSnapshotRef.Name,
				s.Content.Spec.VolumeSnapshotRef.UID,
			),
		)
	}
	ready := nothing{Finding: verdict.Because(verdict.SnapshotIdle, "the snapshot is ready")}
	actions := append(protect(s), releaseClaim(s)...)
	return verdict.DoFirst[Action](ready.Finding, actions, ready)
}

// releaseClaim takes the finalizer off the source when no VolumeSnapshot needs it any more (SN-N5).
func releaseClaim(s Snapshot) []Action {
	if s.Claim == nil || !slices.Contains(s.Claim.Finalizers, names.FinalizerSnapshotClaim) || len(s.Others) > 0 {
		return nil
	}
	return []Action{ReleaseClaim{}}
}

// protect adds the finalizers that the VolumeSnapshot lacks (SN-N2, SN-N3).
func protect(s Snapshot) []Action {
	want := []string{names.FinalizerSnapshotSource}
	if s.Content != nil && s.Content.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete {
		want = append(want, names.FinalizerSnapshotBound)
	}
	return prepare(s, want, "")
}

func prepare(s Snapshot, finalizers []string, class string) []Action {
	missing := slices.DeleteFunc(finalizers, func(f string) bool { return slices.Contains(s.Snapshot.Finalizers, f) })
	if len(missing) == 0 && class == "" {
		return nil
	}
	return []Action{PrepareSnapshot{missing, class}}
}

// follow copies the content's status, which the sidecar wrote, to the VolumeSnapshot (SN-Q5, SN-Q7,
// SN-Q10).
func follow(s Snapshot, now time.Time) Verdict {
	vs, c := s.Snapshot, s.Content
	preProvisioned := SourceClaim(vs) == ""
	ref := c.Spec.VolumeSnapshotRef
	switch {
	case preProvisioned != (c.Spec.Source.SnapshotHandle != nil):
		return fail(
			s,
			now,
			verdict.Because(
				verdict.SnapshotContentUnfit,
				"VolumeSnapshotContent %q has the source of the other kind: %s",
				c.Name,
				map[bool]string{
					true:  "a volumeHandle where a snapshotHandle is needed",
					false: "a snapshotHandle where a volumeHandle is needed",
				}[preProvisioned],
			),
		)
	case !namesIt(c, vs), ref.UID != vs.UID && (!preProvisioned || ref.UID != ""):
		return fail(
			s,
			now,
			verdict.Because(verdict.SnapshotContentTaken,
				"VolumeSnapshotContent %q refers to VolumeSnapshot %s/%s with uid %q",
				c.Name, ref.Namespace, ref.Name, ref.UID),
		)
	}
	actions := protect(s)
	class := ptr.Deref(vs.Spec.VolumeSnapshotClassName, "")
	if preProvisioned && (ref.UID == "" || class != "" && class != ptr.Deref(c.Spec.VolumeSnapshotClassName, "")) {
		actions = append(actions, BindContent{class})
	}
	status := copied(vs, c)
	if !sameStatus(vs.Status, status) {
		actions = append(actions, WriteStatus{status})
	}
	return progress(s, status, actions)
}

// progress names how far the snapshot is.
func progress(s Snapshot, status *snapshotv1.VolumeSnapshotStatus, actions []Action) Verdict {
	key := s.Snapshot.Namespace + "/" + s.Snapshot.Name
	first := verdict.Because(verdict.SnapshotAwaitsDriver, "the driver has not taken the snapshot yet")
	var then Verdict = wait{Finding: first}
	if status.CreationTime != nil && (s.Snapshot.Status == nil || s.Snapshot.Status.CreationTime == nil) {
		first = verdict.Because(verdict.SnapshotTaken, "Snapshot %s was successfully created by the CSI driver.", key)
		then = wait{Finding: verdict.Because(verdict.SnapshotAwaitsDriver, "the driver is processing the snapshot")}
	}
	if ptr.Deref(status.ReadyToUse, false) {
		then = nothing{Finding: verdict.Because(verdict.SnapshotUsable, "Snapshot %s is ready to use.", key)}
		after := s.Snapshot.DeepCopy()
		after.Status = status
		if s.Snapshot = after; s.Claim != nil {
			actions = append(actions, releaseClaim(s)...)
		}
	}
	return verdict.DoFirst(first, actions, then)
}

// copied is the status that follows from the content (SN-Q10).
func copied(vs *snapshotv1.VolumeSnapshot, c *snapshotv1.VolumeSnapshotContent) *snapshotv1.VolumeSnapshotStatus {
	status := &snapshotv1.VolumeSnapshotStatus{}
	if vs.Status != nil {
		status = vs.Status.DeepCopy()
	}
	status.BoundVolumeSnapshotContentName = new(c.Name)
	status.ReadyToUse = new(isReady(c))
	status.Error = nil
	if c.Status == nil {
		return status
	}
	if status.CreationTime == nil && c.Status.CreationTime != nil {
		status.CreationTime = new(metav1.NewTime(time.Unix(0, *c.Status.CreationTime)))
	}
	if c.Status.RestoreSize != nil && (status.RestoreSize == nil || status.RestoreSize.IsZero()) {
		status.RestoreSize = new(size.Quantity(*c.Status.RestoreSize))
	}
	if !isReady(c) {
		status.Error = c.Status.Error.DeepCopy()
	}
	return status
}

func sameStatus(a, b *snapshotv1.VolumeSnapshotStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	sameSize := (a.RestoreSize == nil) == (b.RestoreSize == nil) &&
		(a.RestoreSize == nil || size.Compare(*a.RestoreSize, *b.RestoreSize) == 0)
	return sameSize && progressOf(a).IsSame(progressOf(b))
}

func progressOf(s *snapshotv1.VolumeSnapshotStatus) Progress {
	return Progress{
		Content: s.BoundVolumeSnapshotContentName, Created: s.CreationTime, Ready: s.ReadyToUse, Error: s.Error,
	}
}

// fail writes the error into the status, once per message (SN-Q9), and refuses.
func fail(s Snapshot, now time.Time, f verdict.Finding) Verdict {
	then := refuse{Finding: f}
	status := &snapshotv1.VolumeSnapshotStatus{}
	if s.Snapshot.Status != nil {
		status = s.Snapshot.Status.DeepCopy()
	}
	if f.Reason != verdict.SnapshotClassNotFound && f.Reason != verdict.SnapshotClassUnclear { // SN-Q2: as upstream
		status.ReadyToUse = new(false)
	}
	status.Error = NewStatusError(f.Text(), now)
	if sameStatus(s.Snapshot.Status, status) {
		return then
	}
	return do{Finding: f, Actions: []Action{WriteStatus{status}}, Then: then}
}

// heldFinalizers returns the finalizers of the controller that a VolumeSnapshot has.
func heldFinalizers(vs *snapshotv1.VolumeSnapshot) []string {
	ours := []string{names.FinalizerSnapshotSource, names.FinalizerSnapshotBound, names.FinalizerSnapshotInGroup}
	return slices.DeleteFunc(ours, func(f string) bool { return !slices.Contains(vs.Finalizers, f) })
}

// IsReleased reports whether a VolumeSnapshot is being deleted and waits for other controllers only
// (SN-D2).
func IsReleased(vs *snapshotv1.VolumeSnapshot) bool {
	return vs.DeletionTimestamp != nil && len(heldFinalizers(vs)) == 0
}

// removeSnapshot is section 8 of the rows. The finalizers stay until the content is gone or kept and
// the provisioner needs the VolumeSnapshot for no restore, and go in one write.
func removeSnapshot(s Snapshot) Verdict {
	vs := s.Snapshot
	held := heldFinalizers(vs)
	deleting := verdict.Because(verdict.SnapshotDeleting, "the VolumeSnapshot is being deleted")
	if len(held) == 0 { // SN-D2
		return nothing{Finding: deleting}
	}
	var actions []Action
	if c := s.Content; refersTo(c, vs) { //nolint:nestif // one row of the specification after the other
		if len(s.Restoring) > 0 { // SN-D3
			f := verdict.Because(
				verdict.SnapshotRestoring,
				"Snapshot is being used to restore a PVC: %s",
				strings.Join(s.Restoring, ", "),
			)
			return refuse{Finding: f}
		}
		if !has(c.Annotations, names.AnnSnapshotBeingDeleted) { // SN-D5
			actions = append(actions, MarkDeleting{})
		}
		if c.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete {
			if c.DeletionTimestamp == nil {
				actions = append(actions, DeleteContent{})
			}
			then := wait{Finding: verdict.Because(
				verdict.SnapshotDeleting, "VolumeSnapshotContent %q is being deleted first", c.Name,
			)}
			return verdict.DoFirst[Action](deleting, actions, then)
		}
	}
	actions = append(actions, releaseClaim(s)...)
	if hasFinalizer(vs, names.FinalizerRestoreSource) {
		// The provisioner may only replace the object (RB-5): a write now would be a conflict.
		then := wait{Finding: verdict.Because(
			verdict.SnapshotDeleting, "the external-provisioner removes its finalizer first",
		)}
		return verdict.DoFirst[Action](deleting, actions, then)
	}
	return do{Finding: deleting, Actions: append(actions, ReleaseSnapshot{held}), Then: nothing{Finding: deleting}}
}

// AfterMark decides again about a terminating VolumeSnapshot if the response to MarkDeleting shows
// another deletion policy than the cached content had; nil if it does not. Otherwise a stale cache
// would leak a snapshot whose policy was just changed to Delete, or delete one that is to be kept.
func AfterMark(s Snapshot, marked *snapshotv1.VolumeSnapshotContent) Verdict {
	if marked.Spec.DeletionPolicy == s.Content.Spec.DeletionPolicy {
		return nil
	}
	s.Content = marked
	return removeSnapshot(s)
}

func contentFailure(format string, args ...any) verdict.Finding {
	return verdict.Because(
		verdict.SnapshotContentCreateFailed, "Failed to create snapshot content with error "+format, args...,
	)
}
