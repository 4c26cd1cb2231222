package snapshotting

import (
	"slices"
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

// DecideSnapshot says what the snapshot-controller does for a VolumeSnapshot or VolumeGroupSnapshot,
// its content and its members.
func DecideSnapshot[O Requests, C Contents, L Classes](state State[O, C, L], now time.Time) Verdict {
	s := viewOf(state, now)
	v := s.decide()
	if _, asks := v.(verdict.Read[Action]); asks {
		return v
	}
	var protect []Action // SN-V3
	for i, c := range s.referring {
		// One that is bound now gets its finalizer next, or, of a group, with the binding.
		if c.lacksFinalizer() && (s.object == nil || !s.k.isGroup() && !c.isUnbound()) {
			protect = append(protect, ProtectContent{any(state.Referring[i]).(metav1.Object), s.k.contentFinalizer})
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
		Finding: verdict.Because(verdict.SnapshotAwaitsDriver, "the %s gets its finalizer", s.k.contentKind()),
		Actions: protect,
		Then:    v,
	}
}

func (s view) decide() Verdict {
	o := s.object
	switch {
	case o == nil: // nothing is deleted for it: the content may be a copied one (SN-V4)
		return nothing{Finding: verdict.Because(verdict.SnapshotIdle, "the %s does not exist", s.k.objectKind())}
	case s.mayLackContent():
		return s.ask(verdict.Ref{What: ReadContent, Name: o.contentName()})
	case o.member:
		return s.member()
	case o.DeletionTimestamp != nil:
		return s.remove()
	case o.dynamic == (ptr.Deref(o.content, "") != ""):
		return s.fail(verdict.Because(s.k.invalid, "exactly one of spec.source.%s must be set", s.k.sources))
	case !s.k.isGroup() && o.isReady():
		return s.keepReady()
	case s.content != nil:
		return s.follow()
	case o.isReady() || !o.dynamic:
		return s.fail(verdict.Because(s.k.contentAbsent, "%s %q does not exist", s.k.contentKind(), o.contentName()))
	case o.status.Created != nil:
		// The snapshot was taken. One that is taken now would have other data under the old name.
		return s.lost()
	}
	return s.begin()
}

// mayLackContent reports whether the cache lacks the content, and the API server was not asked. What
// follows from its absence, that the snapshot is lost or that finalizers may be removed, must not
// follow from a stale cache.
func (s view) mayLackContent() bool {
	return s.content == nil && s.lacks(ReadContent) && (ptr.Deref(s.object.status.Content, "") != "" ||
		s.object.isHeld())
}

// lacks reports whether something was not read yet, and ask has it read.
func (s view) lacks(what string) bool { return !slices.Contains(s.Read, what) }

func (s view) ask(refs ...verdict.Ref) Verdict { return verdict.MustRead[Action](refs...) }

func (o *requestView) isReady() bool { return ptr.Deref(o.status.Ready, false) }

// lost fails for want of the content.
func (s view) lost() Verdict {
	return s.fail(verdict.Because(s.k.contentAbsent, "%s is missing", s.k.contentKind()))
}

// keepReady is SN-Q4.
func (s view) keepReady() Verdict {
	switch c := s.content; {
	case c == nil:
		return s.lost()
	case !c.refersTo(s.object):
		return s.fail(verdict.Because(verdict.SnapshotNotBoundBack,
			"VolumeSnapshotContent %q is bound to %s/%s with uid %q", c.Name, c.ref.Namespace, c.ref.Name, c.ref.UID))
	}
	ready := nothing{Finding: verdict.Because(verdict.SnapshotIdle, "the snapshot is ready")}
	actions := append(s.protect(s.content.policy, ""), s.releaseClaim()...)
	return verdict.DoFirst[Action](ready.Finding, actions, ready)
}

// releaseClaim takes the finalizer off the source when no VolumeSnapshot needs it any more (SN-N5).
func (s view) releaseClaim() []Action {
	var actions []Action
	if s.Held {
		actions = append(actions, EndHold{})
	}
	if s.Claim == nil || !slices.Contains(s.Claim.Finalizers, names.FinalizerSnapshotClaim) ||
		slices.ContainsFunc(s.Others, NeedsClaim) {
		return actions
	}
	return append(actions, ReleaseClaim{})
}

// protect adds the finalizers that the object lacks for a content of a policy (SN-N2, SN-N3, SN-N6),
// and its class if that is not empty.
func (s view) protect(policy snapshotv1.DeletionPolicy, class string) []Action {
	missing := []string{s.k.finalizer}
	if !s.k.isGroup() && policy == snapshotv1.VolumeSnapshotContentDelete {
		missing = append(missing, names.FinalizerSnapshotBound)
	}
	missing = slices.DeleteFunc(missing, func(f string) bool { return slices.Contains(s.object.Finalizers, f) })
	if len(missing) == 0 && class == "" {
		return nil
	}
	return []Action{PrepareSnapshot{missing, class}}
}

// follow binds the object to its content, makes the members of a group, and copies the content's
// status, which the sidecar wrote (SN-Q5, SN-Q7, SN-Q10, SN-G3).
func (s view) follow() Verdict {
	o, c := s.object, s.content
	switch {
	case o.dynamic == c.given:
		return s.fail(verdict.Because(s.k.contentUnfit, "%s %q has the source of the other kind: %s",
			s.k.contentKind(), c.Name, map[bool]string{
				true:  "a handle of the backend where a volume is needed",
				false: "a volume where a handle of the backend is needed",
			}[c.given]))
	case !c.namesIt(o), c.ref.UID != o.UID && (o.dynamic || c.ref.UID != ""):
		return s.fail(verdict.Because(s.k.contentTaken, "%s %q refers to %s %s/%s with uid %q",
			s.k.contentKind(), c.Name, s.k.objectKind(), c.ref.Namespace, c.ref.Name, c.ref.UID))
	}
	actions := append(s.protect(c.policy, ""), s.bind()...)
	actions = append(actions, s.protectAgain()...)
	return s.progress(append(actions, s.members()...))
}

// bind has the content refer to the object. The content of a group gets its finalizer with it.
func (s view) bind() []Action {
	class := ptr.Deref(s.object.class, "")
	bind := BindContent{Class: class}
	binds := s.content.ref.UID == ""
	if s.k.isGroup() {
		bind.Finalizers = []string{s.k.contentFinalizer}
		binds = binds || s.content.DeletionTimestamp == nil && !hasFinalizer(s.content, s.k.contentFinalizer)
	} else if !s.object.dynamic {
		binds = binds || class != "" && class != ptr.Deref(s.content.class, "")
	}
	if !binds {
		return nil
	}
	return []Action{bind}
}

// progress copies the status of the content, and names how far the snapshot is.
func (s view) progress(actions []Action) Verdict {
	before, status, named := s.object.status, s.copied(s.content), s.nameDue()
	if !before.isSame(status) && named.IsZero() {
		actions = append(actions, WriteStatus{status})
	}
	first := verdict.Because(verdict.SnapshotAwaitsDriver, "the driver has not taken the %s yet", s.k.noun)
	var then Verdict = wait{Finding: first, Until: named}
	if status.Created != nil && before.Created == nil {
		first = verdict.Because(s.k.taken, "%s %s was successfully created by the CSI driver.", s.k.title, s.Key)
		then = wait{Finding: verdict.Because(
			verdict.SnapshotAwaitsDriver, "the driver is processing the %s", s.k.noun,
		)}
	}
	switch {
	case !ptr.Deref(status.Ready, false):
	case s.object.isReady():
		then = nothing{Finding: verdict.Because(verdict.SnapshotIdle, "the %s is ready", s.k.thing)}
	default:
		then = nothing{Finding: verdict.Because(s.k.usable, "%s %s is ready to use.", s.k.title, s.Key)}
		actions = append(actions, s.releaseClaim()...)
	}
	return verdict.DoFirst(first, actions, then)
}

// copied is the status that follows from a content (SN-Q10).
func (s view) copied(c *contentView) Status {
	status := s.object.status
	status.Content, status.Ready, status.Error = new(c.Name), new(c.isReady()), nil
	if status.Created == nil {
		status.Created = c.status.Created
	}
	if c.status.Size != nil && (status.Size == nil || status.Size.IsZero()) {
		status.Size = new(size.Quantity(*c.status.Size))
	}
	if !c.isReady() {
		status.Error = c.status.Error
	}
	return status
}

// fail writes the error into the status, once per message (SN-Q9), and refuses.
func (s view) fail(f verdict.Finding) Verdict {
	then := refuse{Finding: f}
	status := s.object.status
	if f.Reason != s.k.classNotFound && f.Reason != s.k.classUnclear { // SN-Q2, SN-G1: as upstream
		status.Ready = new(false)
	}
	status.Error = newStatusError(f.Text(), s.now)
	if s.object.status.isSame(status) {
		return then
	}
	return do{Finding: f, Actions: []Action{WriteStatus{status}}, Then: then}
}
