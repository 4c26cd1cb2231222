package groupsnapshotting

import (
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/secretref"
	"github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/core/verdict"
)

type (
	contentNothing = verdict.Nothing[ContentAction]
	contentWait    = verdict.Wait[ContentAction]
	contentRefuse  = verdict.Refuse[ContentAction]
	contentDo      = verdict.Do[ContentAction]
)

// DecideContent says what the sidecar does for the content of a group (SN-G2, SN-G5).
//
//nolint:gocyclo // the table of the specification, row by row
func DecideContent(s Content, now time.Time) ContentVerdict {
	c := s.Content
	switch {
	case c == nil:
		return idle("the VolumeGroupSnapshotContent does not exist any more")
	case c.Spec.Driver != s.Driver || s.Class != nil && s.Class.Driver != s.Driver:
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
			Finding: finding(verdict.GroupContentIdle, "the group is ready"), Actions: []ContentAction{ClearCreating{}}, Then: ready(),
		}
	case isContentReady(c):
		return ready()
	case s.NotBefore.After(now):
		return awaitRetry(s.NotBefore)
	case !s.Asked.IsZero() && s.Asked.Add(pause(s)).After(now):
		return polled(s, s.Asked)
	case !slices.Contains(c.Finalizers, names.FinalizerGroupContent), c.Spec.VolumeGroupSnapshotRef.UID == "":
		return contentWait{Finding: finding(verdict.GroupContentAwaits,
			"the VolumeGroupSnapshotContent does not have its finalizer and the uid of its VolumeGroupSnapshot yet")}
	case c.Spec.Source.GroupSnapshotHandles != nil:
		return find(s, now)
	}
	return create(s, now)
}

func idle(text string) ContentVerdict {
	return contentNothing{Finding: finding(verdict.GroupContentIdle, "%s", text)}
}

func ready() ContentVerdict { return idle("the group is ready") }

func awaitRetry(at time.Time) ContentVerdict {
	return contentWait{
		Finding: finding(verdict.GroupContentAwaitsRetry, "the next attempt is due at %s", at.UTC().Format(time.RFC3339)), Until: at,
	}
}

func pause(s Content) time.Duration {
	return snapshotting.PollingPause(s.Asked.Sub(s.Content.CreationTimestamp.Time))
}

func polled(s Content, asked time.Time) ContentVerdict {
	s.Asked = asked
	return contentWait{
		Finding: finding(verdict.GroupContentPolled, "the driver is still processing the group"), Until: asked.Add(pause(s)),
	}
}

// create asks for a group of snapshots. The content's finalizer is there first, so that neither the
// handle nor the name is lost when the process ends during the call.
func create(s Content, now time.Time) ContentVerdict {
	c := s.Content
	class := ptr.Deref(c.Spec.VolumeGroupSnapshotClassName, "")
	if s.Class == nil {
		return failCreate(s, now, "the VolumeGroupSnapshotClass %q does not exist", class)
	}
	if len(c.Spec.Source.VolumeHandles) == 0 {
		return failCreate(s, now, "spec.source has neither volumeHandles nor groupSnapshotHandles")
	}
	parameters, problem := snapshotting.DriverParameters(s.Class.Parameters)
	if problem != "" {
		return failCreate(s, now, "VolumeGroupSnapshotClass %q: %s", class, problem)
	}
	if s.ExtraMetadata { // SN-P3
		parameters[names.ParameterGroupSnapshotName] = c.Spec.VolumeGroupSnapshotRef.Name
		parameters[names.ParameterGroupSnapshotNamespace] = c.Spec.VolumeGroupSnapshotRef.Namespace
		parameters[names.ParameterGroupSnapshotContentName] = c.Name
	}
	todo := contentDo{Finding: finding(verdict.GroupContentCreating, "the driver is asked for a group of %d snapshots",
		len(c.Spec.Source.VolumeHandles))}
	if _, creating := c.Annotations[names.AnnGroupBeingCreated]; !creating {
		todo.Actions = append(todo.Actions, MarkCreating{})
	}
	todo.Actions = append(todo.Actions, CreateGroup{
		Name: s.Naming.Name(c.Spec.VolumeGroupSnapshotRef.UID), Sources: c.Spec.Source.VolumeHandles, Parameters: parameters,
		Secret: deletionSecret(c),
	})
	return todo
}

func failCreate(s Content, now time.Time, format string, args ...any) ContentVerdict {
	return AfterCreate(s, Answer{}, &snapshotting.Failure{Message: fmt.Sprintf(format, args...), Unasked: true}, now)
}

// find confirms a group that exists already.
func find(s Content, now time.Time) ContentVerdict {
	a := FindGroup{Handle: groupHandle(s.Content), Snapshots: snapshotHandles(s.Content)}
	if s.Class != nil {
		secret, problem := secretref.GroupGetter(s.Class.Parameters, secretref.GroupScope{Content: s.Content.Name})
		if problem != nil {
			text := fmt.Sprintf("VolumeGroupSnapshotClass %q: %s %s", s.Class.Name, problem.Parameter, problem.Text)
			return AfterFind(s, Answer{}, &snapshotting.Failure{Message: text, Unasked: true}, now)
		}
		a.Secret = secret
	}
	return contentDo{
		Finding: finding(verdict.GroupContentCreating, "the driver is asked about the group %q", a.Handle), Actions: []ContentAction{a},
	}
}

// removeContent deletes the group in the backend, or keeps it, and releases the content.
func removeContent(s Content, now time.Time) ContentVerdict {
	c := s.Content
	unbound := c.Spec.Source.GroupSnapshotHandles != nil && c.Spec.VolumeGroupSnapshotRef.UID == ""
	if _, deleted := c.Annotations[names.AnnGroupBeingDeleted]; !unbound && !deleted {
		return contentWait{Finding: finding(verdict.GroupContentAwaitsDeletion, "the VolumeGroupSnapshot %s/%s is not being deleted",
			c.Spec.VolumeGroupSnapshotRef.Namespace, c.Spec.VolumeGroupSnapshotRef.Name)}
	}
	known := groupHandle(c)
	if c.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete || known == "" {
		return contentDo{
			Finding: finding(verdict.GroupContentDeleting, "there is no group to delete with the VolumeGroupSnapshotContent"),
			Actions: []ContentAction{ReleaseContent{}}, Then: gone(),
		}
	}
	if s.NotBefore.After(now) {
		return awaitRetry(s.NotBefore)
	}
	return contentDo{
		Finding: finding(verdict.GroupContentDeleting, "the driver is asked to delete the group %q", known),
		Actions: []ContentAction{DeleteGroup{Handle: known, Snapshots: snapshotHandles(c), Secret: deletionSecret(c)}},
	}
}

func gone() ContentVerdict {
	return contentNothing{Finding: finding(verdict.GroupContentDeleting, "the VolumeGroupSnapshotContent is free to go")}
}
