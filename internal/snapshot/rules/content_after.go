package snapshotting

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// AfterCreate turns the answer to a call that creates into the next verdict.
func AfterCreate[C Contents, L Classes](s ContentState[C, L], a Answer, f *Failure, now time.Time) ContentVerdict {
	return sidecarViewOf(s, now).afterCreate(a, f)
}

// AfterFind turns the answer about what exists already into the next verdict.
func AfterFind[C Contents, L Classes](s ContentState[C, L], a Answer, f *Failure, now time.Time) ContentVerdict {
	return sidecarViewOf(s, now).afterFind(a, f)
}

// AfterDelete turns the answer to a call that deletes into the next verdict. NotFound is a failure
// as well (SN-K2): the CSI specification has a driver answer OK for a snapshot that is gone.
func AfterDelete[C Contents, L Classes](state ContentState[C, L], f *Failure) ContentVerdict {
	s := sidecarViewOf(state, time.Time{})
	if f != nil {
		failed := verdict.Because(s.k.deleteFailed, "Failed to delete %s: %s", s.k.noun, f.Words())
		failed.Fix = s.content.deletionFix(*f)
		return contentRefuse{Finding: failed}
	}
	return s.release(verdict.Because(verdict.ContentDeleting, "the %s is deleted", s.k.thing))
}

// release removes the finalizer.
func (s sidecarView) release(because verdict.Finding) ContentVerdict {
	return contentDo{
		Finding: because, Actions: []ContentAction{ReleaseContent{s.k.contentFinalizer}},
		Then: contentNothing{Finding: verdict.Because(
			verdict.ContentDeleting, "the %s is free to go", s.k.contentKind(),
		)},
	}
}

func (s sidecarView) afterCreate(a Answer, f *Failure) ContentVerdict {
	c := s.content
	notMade := f != nil && f.NoAnswer
	if f == nil && a.Handle == "" { // SN-H8; the same call may still get a whole answer
		f = &Failure{Message: "the driver answered " + s.k.create + " without a " + s.k.noun + " id", NoAnswer: true}
	}
	if f != nil {
		because := verdict.Because(s.k.createFailed, "Failed to create %s: failed to take %[1]s of the %s %s: %q",
			s.k.noun, s.k.volumes, strings.Join(c.volumes, ", "), f.Words())
		if notMade && c.DeletionTimestamp != nil {
			because.Fix = c.creationFix(*f)
		}
		return s.refuse(s.afterFailure(*f), because)
	}
	done := s.answered(a)
	done.Actions = append(done.Actions, s.unmark()...)
	done.Finding = verdict.Because(verdict.ContentIdle, "the driver made the %s %q", s.k.thing, a.Handle)
	if a.Ready {
		return done
	}
	done.Finding = verdict.Because(
		verdict.ContentPolled, "the driver made the %s %q and is still processing it", s.k.thing, a.Handle,
	)
	if c.isTaken() {
		done.Actions = nil
		if s.Recorded || has(c.Annotations, s.k.creating) {
			done.Actions = s.unmark()
		}
	}
	return done
}

// unmark ends what was written down before a call whose outcome is known now.
func (s sidecarView) unmark() []ContentAction {
	switch {
	case s.Recorded:
		return []ContentAction{ResolveCall{}}
	case s.Journal && !s.k.isGroup() && !has(s.content.Annotations, s.k.creating):
		return nil
	}
	return []ContentAction{ClearCreating{s.k.creating}}
}

// afterFailure is unmark for a call that failed. After one with an unknown outcome the annotation takes
// the place of the entry in the journal.
func (s sidecarView) afterFailure(f Failure) []ContentAction {
	switch {
	case f.IsFinal():
		return s.unmark()
	case s.Recorded:
		return []ContentAction{MarkCreating{s.k.creating}}
	}
	return nil
}

func (s sidecarView) afterFind(a Answer, f *Failure) ContentVerdict {
	if f == nil && a.Handle == "" {
		f = &Failure{Message: "can not find " + s.k.noun + " for " + s.k.id + " " + s.content.handle}
	}
	if f != nil {
		return s.refuse(nil, verdict.Because(s.k.checkFailed,
			"Failed to check and update %s content: %s", s.k.noun, f.Words()))
	}
	done := s.answered(a)
	done.Finding = verdict.Because(verdict.ContentIdle, "the %s %q exists", s.k.thing, a.Handle)
	if !a.Ready {
		done.Finding = verdict.Because(
			verdict.ContentPolled, "the driver is still processing the %s %q", s.k.thing, a.Handle,
		)
		if s.content.isTaken() && !s.k.isGroup() { // each answer about a group can have further snapshots
			done.Actions = nil
		}
	}
	return done
}

// isTaken reports whether the status has the handle and no error, so that an answer brings nothing
// new before the snapshot is ready.
func (c *contentView) isTaken() bool { return c.status.Handle != nil && c.status.Error == nil }

// answered writes the answer and waits until the snapshot is ready.
func (s sidecarView) answered(a Answer) contentDo {
	done := contentDo{Actions: []ContentAction{WriteContentStatus{s.content.merged(a, s.now)}}, Then: s.idleReady()}
	if !a.Ready {
		done.Then = s.polled(s.now)
	}
	return done
}

// refuse ends with an error that the status has too, once per message (SN-A6).
func (s sidecarView) refuse(actions []ContentAction, because verdict.Finding) ContentVerdict {
	if status := s.content.status; !hasMessage(status.Error, because.Message) {
		status.Ready, status.Error = new(false), newStatusError(because.Message, s.now)
		actions = append(actions, WriteContentStatus{status})
	}
	return verdict.DoFirst[ContentAction](because, actions, contentRefuse{Finding: because})
}

// merged is the status with an answer (SN-A11, SN-A12): what is set stays, and readiness follows the
// driver.
func (c *contentView) merged(a Answer, now time.Time) ContentStatus {
	status := c.status
	if status.Handle == nil {
		status.Handle = new(a.Handle)
	}
	if status.Created == nil {
		if a.Created.IsZero() { // the driver does not say when: not 1970 (SN-H7)
			a.Created = now
		}
		status.Created = new(metav1.NewTime(a.Created))
	}
	if status.Size == nil && a.Size > 0 {
		status.Size = new(a.Size)
	}
	if len(status.Snapshots) == 0 || a.Ready {
		status.Snapshots = a.Snapshots
	}
	status.Ready, status.Error = new(a.Ready), nil
	return status
}
