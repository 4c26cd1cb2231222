package snapshotting

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// DecideGroupContent says what the sidecar does for the content of a group (SN-G2, SN-G5).
//
//nolint:gocyclo // the table of the specification, row by row
func DecideGroupContent(s Content, now time.Time) ContentVerdict {
	c := s.Content
	switch {
	case c == nil:
		return idle("the VolumeGroupSnapshotContent does not exist any more")
	case c.Spec.Driver != s.Driver || c.DeletionTimestamp == nil && s.Class != nil && s.Class.Driver != s.Driver:
		return idle("another driver serves the VolumeGroupSnapshotContent")
	case c.DeletionTimestamp != nil && !slices.Contains(c.Finalizers, names.FinalizerGroupContent):
		return idle("the VolumeGroupSnapshotContent does not wait for the driver")
	}
	_, creating := c.Annotations[names.AnnGroupBeingCreated]
	switch {
	case c.DeletionTimestamp != nil && (!creating || groupHandle(c) != ""):
		return removeContent(s, now)
	case isContentReady(c) && creating:
		return contentDo{
			Finding: verdict.Because(verdict.ContentIdle, "the group is ready"),
			Actions: []ContentAction{ClearCreating{}}, Then: idleReady(group.thing),
		}
	case isContentReady(c):
		return idleReady(group.thing)
	case s.NotBefore.After(now):
		return awaitRetry(s.NotBefore)
	case !s.Asked.IsZero() && nextPoll(s.Content, s.Asked).After(now):
		return polled(s.Content, s.Asked, group.thing)
	case !slices.Contains(c.Finalizers, names.FinalizerGroupContent), c.Spec.VolumeGroupSnapshotRef.UID == "":
		return contentWait{Finding: verdict.Because(verdict.ContentAwaitsFinalizer,
			"the VolumeGroupSnapshotContent does not have its finalizer and the uid of its VolumeGroupSnapshot yet")}
	case c.Spec.Source.GroupSnapshotHandles != nil:
		return groupFind(s, now)
	}
	return groupCreate(s, now)
}

// groupCreate asks for a group of snapshots. The content's finalizer is there first, so that neither the
// handle nor the name is lost when the process ends during the call.
func groupCreate(s Content, now time.Time) ContentVerdict {
	c := s.Content
	class := ptr.Deref(c.Spec.VolumeGroupSnapshotClassName, "")
	if s.Class == nil {
		return groupFailCreate(s, now, "the VolumeGroupSnapshotClass %q does not exist", class)
	}
	if s.Class.Driver != s.Driver { // only while the content is being deleted
		return groupFailCreate(
			s, now, "the VolumeGroupSnapshotClass %q is for the driver %q now", class, s.Class.Driver,
		)
	}
	if len(c.Spec.Source.VolumeHandles) == 0 {
		return groupFailCreate(s, now, "spec.source has neither volumeHandles nor groupSnapshotHandles")
	}
	parameters, problem := DriverParameters(s.Class.Parameters)
	if problem != "" {
		return groupFailCreate(s, now, "VolumeGroupSnapshotClass %q: %s", class, problem)
	}
	if s.ExtraMetadata { // SN-P3
		parameters[names.ParameterGroupSnapshotName] = c.Spec.VolumeGroupSnapshotRef.Name
		parameters[names.ParameterGroupSnapshotNamespace] = c.Spec.VolumeGroupSnapshotRef.Namespace
		parameters[names.ParameterGroupSnapshotContentName] = c.Name
	}
	todo := contentDo{Finding: verdict.Because(verdict.ContentCreating,
		"the driver is asked for a group of %d snapshots",
		len(c.Spec.Source.VolumeHandles))}
	_, marked := c.Annotations[names.AnnGroupBeingCreated]
	todo.Actions = append(todo.Actions, CreateGroup{
		Name: s.Naming.Name(c.Spec.VolumeGroupSnapshotRef.UID), Sources: c.Spec.Source.VolumeHandles,
		Parameters: parameters,
		Secret:     groupDeletionSecret(c), Mark: !marked,
	})
	return todo
}

func groupFailCreate(s Content, now time.Time, format string, args ...any) ContentVerdict {
	return GroupAfterCreate(s, GroupAnswer{}, &Failure{Message: fmt.Sprintf(format, args...), NoAnswer: true}, now)
}

// groupFind confirms a group that exists already.
func groupFind(s Content, now time.Time) ContentVerdict {
	a := FindGroup{Handle: groupHandle(s.Content), Snapshots: snapshotHandles(s.Content)}
	if s.Class != nil {
		secret, problem := secretref.GroupGetter(s.Class.Parameters, secretref.GroupScope{Content: s.Content.Name})
		if problem != nil {
			text := fmt.Sprintf("VolumeGroupSnapshotClass %q: %s %s", s.Class.Name, problem.Parameter, problem.Text)
			return GroupAfterFind(s, GroupAnswer{}, &Failure{Message: text, NoAnswer: true}, now)
		}
		a.Secret = secret
	}
	return contentDo{
		Finding: verdict.Because(
			verdict.ContentCreating, "the driver is asked about the group %q", a.Handle,
		), Actions: []ContentAction{a},
	}
}
