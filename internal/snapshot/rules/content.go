package snapshotting

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

type (
	contentNothing = verdict.Nothing[ContentAction]
	contentWait    = verdict.Wait[ContentAction]
	contentRefuse  = verdict.Refuse[ContentAction]
	contentDo      = verdict.Do[ContentAction]
)

// DecideContent says what the sidecar does for a content (SN-A4, SN-E1).
//
//nolint:gocyclo // the table of the specification, row by row
func DecideContent(s ContentSnapshot, now time.Time) ContentVerdict {
	c := s.Content
	switch {
	case c == nil:
		return idle("the VolumeSnapshotContent does not exist any more")
	case c.Spec.Driver != s.Driver || c.DeletionTimestamp == nil && isForeign(s.Class, s.Driver): // SN-A2
		return idle("another driver serves the VolumeSnapshotContent")
	case s.Node != "" && c.Labels[names.LabelSnapshotNode] != s.Node: // SN-L2
		return idle("the sidecar on another node serves the VolumeSnapshotContent")
	case c.DeletionTimestamp != nil && !slices.Contains(c.Finalizers, names.FinalizerSnapshotContent):
		return idle("the VolumeSnapshotContent does not wait for the driver")
	}
	creating := has(c.Annotations, names.AnnSnapshotBeingCreated)
	switch {
	case c.DeletionTimestamp != nil && (!creating || handle(c) != ""):
		return remove(s, now)
	case isReady(c) && creating:
		return contentDo{
			Finding: verdict.Because(
				verdict.ContentIdle, "the snapshot is ready",
			), Actions: []ContentAction{ClearCreating{}}, Then: idleReady(single.thing),
		}
	case isReady(c):
		return idleReady(single.thing)
	case isMember(c) && (c.Status == nil || handle(c) == ""): // SN-A10
		return idle("the snapshot belongs to a group")
	case s.NotBefore.After(now):
		return awaitRetry(s.NotBefore)
	case !s.Asked.IsZero() && nextPoll(s.Content, s.Asked).After(now):
		return polled(s.Content, s.Asked, single.thing)
	case c.Spec.Source.SnapshotHandle != nil, isMember(c): // SN-A9
		return find(s, now)
	case c.Spec.Source.VolumeHandle == nil:
		return contentRefuse{
			Finding: verdict.Because(
				verdict.ContentCheckFailed, "spec.source has neither volumeHandle nor snapshotHandle",
			),
		}
	}
	return create(s, now)
}

// isForeign reports whether a class is of another driver. A content outlives its class, and one of
// that name may be made anew: what is being deleted does not depend on it.
func isForeign(class *snapshotv1.VolumeSnapshotClass, driver string) bool {
	return class != nil && class.Driver != driver
}

func idle(text string) ContentVerdict {
	return contentNothing{Finding: verdict.Because(verdict.ContentIdle, "%s", text)}
}

func awaitRetry(at time.Time) ContentVerdict {
	return contentWait{
		Finding: verdict.Because(
			verdict.WaitForRetry, "the next attempt is due at %s", at.UTC().Format(time.RFC3339),
		), Until: at,
	}
}

func idleReady(thing string) ContentVerdict { return idle("the " + thing + " is ready") }

// The poll interval is a quarter of the snapshot's age at first, and a tenth later, within these bounds.
// So a snapshot that takes long is polled less often, and still becomes ready without a long delay
// (SN-H17). One that is never ready costs little, however many a user creates.
const (
	shortestPause = time.Second
	firstPause    = 15 * time.Second
	longestPause  = 5 * time.Minute
)

// PollingPause returns how long the driver is left alone with a snapshot of this age.
func PollingPause(age time.Duration) time.Duration {
	return min(max(min(age/4, firstPause), age/10, shortestPause), longestPause)
}

// nextPoll returns when the driver is asked again about what it was still processing.
func nextPoll(content metav1.Object, asked time.Time) time.Time {
	return asked.Add(PollingPause(asked.Sub(content.GetCreationTimestamp().Time)))
}

func polled(content metav1.Object, asked time.Time, thing string) ContentVerdict {
	return contentWait{
		Finding: verdict.Because(verdict.ContentPolled, "the driver is still processing the %s", thing),
		Until:   nextPoll(content, asked),
	}
}

// create asks for a snapshot of a volume. The content's finalizer is there first, so that neither
// the handle nor the name is lost when the process ends during the call.
func create(s ContentSnapshot, now time.Time) ContentVerdict {
	c := s.Content
	if !slices.Contains(c.Finalizers, names.FinalizerSnapshotContent) {
		return contentWait{
			Finding: verdict.Because(
				verdict.ContentAwaitsFinalizer, "the VolumeSnapshotContent does not have its finalizer yet",
			),
		}
	}
	if c.Spec.VolumeSnapshotRef.UID == "" {
		return contentWait{
			Finding: verdict.Because(
				verdict.ContentAwaitsFinalizer,
				"spec.volumeSnapshotRef has no uid yet, from which the snapshot is named",
			),
		}
	}
	class := ptr.Deref(c.Spec.VolumeSnapshotClassName, "")
	if s.Class == nil {
		return failCreate(s, now, "the VolumeSnapshotClass %q does not exist", class)
	}
	if isForeign(s.Class, s.Driver) { // only while the content is being deleted
		return failCreate(s, now, "the VolumeSnapshotClass %q is for the driver %q now", class, s.Class.Driver)
	}
	parameters, problem := driverParameters(s)
	if problem != "" {
		return failCreate(s, now, "VolumeSnapshotClass %q: %s", class, problem)
	}
	todo := contentDo{
		Finding: verdict.Because(
			verdict.ContentCreating, "the driver is asked for a snapshot of volume %q", *c.Spec.Source.VolumeHandle,
		),
	}
	todo.Actions = append(todo.Actions, CreateSnapshot{
		Name: s.Naming.Name(
			c.Spec.VolumeSnapshotRef.UID,
		), SourceVolume: *c.Spec.Source.VolumeHandle, Parameters: parameters, Secret: deletionSecret(c),
		Mark: !has(c.Annotations, names.AnnSnapshotBeingCreated),
	})
	return todo
}

func failCreate(s ContentSnapshot, now time.Time, format string, args ...any) ContentVerdict {
	return AfterCreate(s, Answer{}, &Failure{Message: fmt.Sprintf(format, args...), NoAnswer: true}, now)
}

// secretKeys are the parameters that the driver does not get (SN-P4).
var secretKeys = []string{
	names.ParameterSnapshotterSecretName, names.ParameterSnapshotterSecretNamespace,
	names.ParameterSnapshotterListSecretName, names.ParameterSnapshotterListSecretNamespace,
	names.ParameterGroupSnapshotterSecretName, names.ParameterGroupSnapshotterSecretNamespace,
	names.ParameterGroupSnapshotterGetName, names.ParameterGroupSnapshotterGetNamespace,
}

// DriverParameters returns the parameters of a class that the driver gets: none that names a secret
// (SN-P4).
func DriverParameters(class map[string]string) (parameters map[string]string, problem string) {
	parameters = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(class)) {
		switch {
		case slices.Contains(secretKeys, key):
		case strings.HasPrefix(key, names.ParameterPrefix):
			return nil, fmt.Sprintf(
				"found unknown parameter key %q with reserved namespace %s; remove it", key, names.ParameterPrefix,
			)
		default:
			parameters[key] = class[key]
		}
	}
	return parameters, ""
}

func driverParameters(s ContentSnapshot) (parameters map[string]string, problem string) {
	if parameters, problem = DriverParameters(s.Class.Parameters); problem != "" {
		return nil, problem
	}
	if s.ExtraMetadata { // SN-P3
		parameters[names.ParameterSnapshotName] = s.Content.Spec.VolumeSnapshotRef.Name
		parameters[names.ParameterSnapshotNamespace] = s.Content.Spec.VolumeSnapshotRef.Namespace
		parameters[names.ParameterSnapshotContentName] = s.Content.Name
	}
	return parameters, ""
}

// find confirms a snapshot that exists already (SN-A9).
func find(s ContentSnapshot, now time.Time) ContentVerdict {
	known := handle(s.Content)
	if !s.Lists {
		return contentDo{
			Finding: verdict.Because(
				verdict.ContentIdle, "the driver cannot list snapshots, so the snapshot %q counts as ready", known,
			),
			Actions: []ContentAction{FindSnapshot{Handle: known}},
		}
	}
	a := FindSnapshot{Handle: known, Secret: deletionSecret(s.Content)}
	if s.Class != nil && !isMember(s.Content) {
		secret, problem := secretref.SnapshotLister(
			s.Class.Parameters, secretref.SnapshotScope{Content: s.Content.Name},
		)
		if problem != nil {
			return AfterFind(
				s,
				Answer{},
				&Failure{Message: fmt.Sprintf(
					"VolumeSnapshotClass %q: %s %s", s.Class.Name, problem.Parameter, problem.Text,
				)},
				now,
			)
		}
		a.Secret = secret
	} else if !isMember(s.Content) {
		a.Secret = types.NamespacedName{}
	}
	return contentDo{
		Finding: verdict.Because(verdict.ContentCreating, "the driver is asked about the snapshot %q", known),
		Actions: []ContentAction{a},
	}
}

// statusOf merges an answer into the status (SN-A11, SN-A12): what is set stays, and readiness
// follows the driver.
func statusOf(c *snapshotv1.VolumeSnapshotContent, a Answer, now time.Time) *snapshotv1.VolumeSnapshotContentStatus {
	status := &snapshotv1.VolumeSnapshotContentStatus{}
	if c.Status != nil {
		status = c.Status.DeepCopy()
	}
	if status.SnapshotHandle == nil {
		status.SnapshotHandle = new(a.Handle)
	}
	if status.CreationTime == nil {
		if a.Created.IsZero() { // the driver does not say when: not 1970 (SN-H7)
			a.Created = now
		}
		status.CreationTime = new(a.Created.UnixNano())
	}
	if status.RestoreSize == nil && a.Size > 0 {
		status.RestoreSize = new(a.Size)
	}
	status.ReadyToUse = new(a.Ready)
	status.Error = nil
	return status
}
