package snapshotting

import (
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// contentKind is how the content of a VolumeSnapshot and that of a VolumeGroupSnapshot differ where
// the rules are the same: their words, and reasons whose events are upstream's.
type contentKind struct {
	kind                                    string
	thing                                   string // in our messages
	snapshot, volumes, id, create           string // in upstream's messages
	createFailed, checkFailed, deleteFailed verdict.Reason
	creating                                string // annotation
	secretName, secretNamespace             string // annotations with the secret for the deletion
}

var single = contentKind{
	kind: "VolumeSnapshotContent", thing: "snapshot",
	snapshot: "snapshot", volumes: "volume", id: "snapshotID", create: "CreateSnapshot",
	createFailed: verdict.ContentCreateFailed, checkFailed: verdict.ContentCheckFailed,
	deleteFailed: verdict.ContentDeleteFailed, creating: names.AnnSnapshotBeingCreated,
	secretName: names.AnnSnapshotDeletionSecretName, secretNamespace: names.AnnSnapshotDeletionSecretNamespace,
}

var group = contentKind{
	kind: "VolumeGroupSnapshotContent", thing: "group",
	snapshot: "group snapshot", volumes: "volumes", id: "groupSnapshotID", create: "CreateVolumeGroupSnapshot",
	createFailed: verdict.GroupContentCallFailed, checkFailed: verdict.GroupContentCheckFailed,
	deleteFailed: verdict.GroupContentDeleteFailed, creating: names.AnnGroupBeingCreated,
	secretName: names.AnnGroupDeletionSecretName, secretNamespace: names.AnnGroupDeletionSecretNamespace,
}

// contentAnswer is the answer of the driver about one content.
type contentAnswer struct {
	contentKind
	content metav1.Object
	// volumes are the sources of the content, and handle what it is known by.
	volumes, handle string
	// taken says that the status has the handle and no error, so that an answer brings nothing new
	// before it is ready.
	taken bool
	// answer and ready are the driver's; answer is the handle, and empty if it has none.
	answer string
	ready  bool
	// write puts the answer into the status, and writeError an error.
	write      ContentAction
	writeError func(message string) []ContentAction
}

// refuse ends with an error that the status has too.
func (d contentAnswer) refuse(first []ContentAction, because verdict.Finding) ContentVerdict {
	actions := slices.Concat(first, d.writeError(because.Message))
	return verdict.DoFirst[ContentAction](because, actions, contentRefuse{Finding: because})
}

// afterCreate turns the answer to a call that creates into the next verdict.
func (d contentAnswer) afterCreate(f *Failure, now time.Time) ContentVerdict {
	if f == nil && d.answer == "" { // SN-H8; the same call may still get a whole answer
		f = &Failure{Message: "the driver answered " + d.create + " without a " + d.snapshot + " id", NoAnswer: true}
	} else if f != nil && f.NoAnswer && d.content.GetDeletionTimestamp() != nil {
		return d.createFailedFor(*f, creationFix(*f, d.contentKind, d.content.GetName()))
	}
	if f != nil {
		return d.createFailedFor(*f, "")
	}
	_, creating := d.content.GetAnnotations()[d.creating]
	done := contentDo{
		Finding: verdict.Because(verdict.ContentIdle, "the driver made the %s %q", d.thing, d.answer),
		Actions: []ContentAction{d.write, ClearCreating{}}, Then: idleReady(d.thing),
	}
	if d.ready {
		return done
	}
	done.Finding = verdict.Because(
		verdict.ContentPolled, "the driver made the %s %q and is still processing it", d.thing, d.answer,
	)
	done.Then = polled(d.content, now, d.thing)
	switch {
	case d.taken && creating:
		done.Actions = []ContentAction{ClearCreating{}}
	case d.taken:
		done.Actions = nil
	}
	return done
}

func (d contentAnswer) createFailedFor(f Failure, fix string) ContentVerdict {
	because := verdict.Because(d.createFailed, "Failed to create %s: failed to take %[1]s of the %s %s: %q",
		d.snapshot, d.contentKind.volumes, d.volumes, f.Words())
	because.Fix = fix
	var actions []ContentAction
	if f.IsFinal() {
		actions = append(actions, ClearCreating{})
	}
	return d.refuse(actions, because)
}

// afterFind turns the answer about what exists already into the next verdict.
func (d contentAnswer) afterFind(f *Failure, now time.Time) ContentVerdict {
	if f == nil && d.answer == "" {
		f = &Failure{Message: "can not find " + d.snapshot + " for " + d.id + " " + d.handle}
	}
	if f != nil {
		return d.refuse(nil, verdict.Because(d.checkFailed,
			"Failed to check and update %s content: %s", d.snapshot, f.Words()))
	}
	done := contentDo{
		Finding: verdict.Because(verdict.ContentIdle, "the %s %q exists", d.thing, d.answer),
		Actions: []ContentAction{d.write}, Then: idleReady(d.thing),
	}
	if !d.ready {
		done.Finding = verdict.Because(
			verdict.ContentPolled, "the driver is still processing the %s %q", d.thing, d.answer,
		)
		done.Then = polled(d.content, now, d.thing)
		if d.taken {
			done.Actions = nil
		}
	}
	return done
}

// afterDelete turns the answer to a call that deletes into the next verdict. NotFound is a failure
// as well (SN-K2): the CSI specification has a driver answer OK for a snapshot that is gone.
func (k contentKind) afterDelete(content string, f *Failure) ContentVerdict {
	if f != nil {
		failed := verdict.Because(k.deleteFailed, "Failed to delete %s: %s", k.snapshot, f.Words())
		failed.Fix = deletionFix(*f, k, content)
		return contentRefuse{Finding: failed}
	}
	return contentDo{
		Finding: verdict.Because(verdict.ContentDeleting, "the %s is deleted", k.thing),
		Actions: []ContentAction{ReleaseContent{}}, Then: k.gone(),
	}
}

func (k contentKind) gone() ContentVerdict {
	return contentNothing{Finding: verdict.Because(verdict.ContentDeleting, "the %s is free to go", k.kind)}
}

func answerFor(s ContentSnapshot, a Answer, now time.Time) contentAnswer {
	c := s.Content
	return contentAnswer{
		contentKind: single, content: c, volumes: ptr.Deref(c.Spec.Source.VolumeHandle, ""), handle: handle(c),
		taken:  c.Status != nil && c.Status.SnapshotHandle != nil && c.Status.Error == nil,
		answer: a.Handle, ready: a.Ready, write: WriteContentStatus{statusOf(c, a, now)},
		writeError: func(message string) []ContentAction { return failed(c, message, now) },
	}
}

// AfterCreate turns the answer to CreateSnapshot into the next verdict.
func AfterCreate(s ContentSnapshot, a Answer, f *Failure, now time.Time) ContentVerdict {
	return answerFor(s, a, now).afterCreate(f, now)
}

// AfterFind turns the answer to ListSnapshots into the next verdict. Without LIST_SNAPSHOTS the
// answer is what the content says.
func AfterFind(s ContentSnapshot, a Answer, f *Failure, now time.Time) ContentVerdict {
	return answerFor(s, a, now).afterFind(f, now)
}

// AfterDelete turns the answer to DeleteSnapshot into the next verdict.
func AfterDelete(s ContentSnapshot, f *Failure) ContentVerdict {
	return single.afterDelete(s.Content.Name, f)
}

// failed returns the write of an error into the status; none when it is there already (SN-A6).
func failed(c *snapshotv1.VolumeSnapshotContent, message string, now time.Time) []ContentAction {
	if c.Status != nil && HasMessage(c.Status.Error, message) {
		return nil
	}
	status := &snapshotv1.VolumeSnapshotContentStatus{}
	if c.Status != nil {
		status = c.Status.DeepCopy()
	}
	status.ReadyToUse = new(false)
	status.Error = NewStatusError(message, now)
	return []ContentAction{WriteContentStatus{status}}
}
