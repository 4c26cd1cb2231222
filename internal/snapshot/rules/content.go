package snapshotting

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// DecideContent says what the sidecar does for a content of either kind (SN-A4, SN-E1, SN-G2, SN-G5).
func DecideContent[C Contents, L Classes](state ContentState[C, L], now time.Time) ContentVerdict {
	return sidecarViewOf(state, now).decide()
}

func (s sidecarView) decide() ContentVerdict {
	c := s.content
	switch {
	case c == nil:
		return idle("the %s does not exist any more", s.k.contentKind())
	case c.driver != s.Driver || c.DeletionTimestamp == nil && s.isForeign(): // SN-A2
		return idle("another driver serves the %s", s.k.contentKind())
	case s.Node != "" && c.Labels[names.LabelSnapshotNode] != s.Node: // SN-L2
		return idle("the sidecar on another node serves the %s", s.k.contentKind())
	case c.DeletionTimestamp != nil && !hasFinalizer(c, s.k.contentFinalizer):
		return idle("the %s does not wait for the driver", s.k.contentKind())
	case s.Recorded:
		return s.recorded()
	case c.DeletionTimestamp == nil:
		return s.serve()
	case !has(c.Annotations, s.k.creating) || c.handle != "":
		return s.remove()
	}
	return s.serve() // the outcome of an earlier call is unknown
}

// recorded ends the entry that a process left in the journal, or that a failed write of this one left. An
// entry is for the time of one run: a content whose call has an unknown outcome has the annotation, which
// every csi-snapshotter understands.
func (s sidecarView) recorded() ContentVerdict {
	found, action := verdict.Because(
		verdict.ContentCreating, "an earlier call may have made the %s, and is repeated", s.k.thing,
	), ContentAction(MarkCreating{s.k.creating})
	if s.content.handle != "" {
		found.Message = fmt.Sprintf("an earlier call made the %s %q", s.k.thing, s.content.handle)
		action = ResolveCall{}
	}
	return contentDo{
		Finding: found, Actions: []ContentAction{action}, Then: contentWait{Finding: found, Until: s.now},
	}
}

// serve has the snapshot made, or found, until it is ready.
func (s sidecarView) serve() ContentVerdict {
	c := s.content
	switch {
	case c.isReady() && has(c.Annotations, s.k.creating):
		ready := s.idleReady()
		return contentDo{Finding: ready.Because(), Actions: []ContentAction{ClearCreating{s.k.creating}}, Then: ready}
	case c.isReady():
		return s.idleReady()
	case c.member && (c.bare || c.handle == ""): // SN-A10
		return idle("the snapshot belongs to a group")
	case s.NotBefore.After(s.now):
		return s.awaitRetry()
	case !s.Asked.IsZero() && s.nextPoll(s.Asked).After(s.now):
		return s.polled(s.Asked)
	case s.k.isGroup() && c.lacksProtection():
		return s.awaitProtection()
	case c.given, c.member: // SN-A9
		return s.find()
	case len(c.volumes) == 0:
		return contentRefuse{Finding: verdict.Because(
			s.k.checkFailed, "spec.source has neither volumes nor what the driver knows the %s by", s.k.thing,
		)}
	case c.lacksProtection():
		return s.awaitProtection()
	}
	return s.create()
}

// isForeign reports whether the class is of another driver. A content outlives its class, and one of
// that name may be made anew: what is being deleted does not depend on it.
func (s sidecarView) isForeign() bool { return s.class != nil && s.class.driver != s.Driver }

func idle(format string, args ...any) ContentVerdict {
	return contentNothing{Finding: verdict.Because(verdict.ContentIdle, format, args...)}
}

func (s sidecarView) idleReady() ContentVerdict { return idle("the %s is ready", s.k.thing) }

func (s sidecarView) awaitRetry() ContentVerdict {
	return contentWait{Finding: verdict.Because(
		verdict.WaitForRetry, "the next attempt is due at %s", s.NotBefore.UTC().Format(time.RFC3339),
	), Until: s.NotBefore}
}

// The poll interval is a quarter of the snapshot's age at first, and a tenth later, within these bounds.
// So a snapshot that takes long is polled less often, and still becomes ready without a long delay
// (SN-H17). One that is never ready costs little, however many a user creates.
const (
	shortestPause = time.Second
	firstPause    = 15 * time.Second
	longestPause  = 5 * time.Minute
)

// pollingPause returns how long the driver is left alone with a snapshot of this age.
func pollingPause(age time.Duration) time.Duration {
	return min(max(min(age/4, firstPause), age/10, shortestPause), longestPause)
}

// nextPoll returns when the driver is asked again about what it was still processing.
func (s sidecarView) nextPoll(asked time.Time) time.Time {
	return asked.Add(pollingPause(asked.Sub(s.content.CreationTimestamp.Time)))
}

func (s sidecarView) polled(asked time.Time) ContentVerdict {
	return contentWait{
		Finding: verdict.Because(verdict.ContentPolled, "the driver is still processing the %s", s.k.thing),
		Until:   s.nextPoll(asked),
	}
}

// lacksProtection reports whether a content lacks its finalizer, without which the handle and the
// name are lost when the process ends during a call, or the uid that the snapshot is named from.
func (c *contentView) lacksProtection() bool {
	return !hasFinalizer(c, c.k.contentFinalizer) || c.ref.UID == ""
}

func (s sidecarView) awaitProtection() ContentVerdict {
	return contentWait{Finding: verdict.Because(verdict.ContentAwaitsFinalizer,
		"the %s does not have its finalizer and the uid of its %s yet", s.k.contentKind(), s.k.objectKind())}
}

// create asks for a snapshot of the volumes.
func (s sidecarView) create() ContentVerdict {
	c, class := s.content, ptr.Deref(s.content.class, "")
	if s.class == nil {
		return s.failCreate("the %s %q does not exist", s.k.classKind(), class)
	}
	if s.isForeign() { // only while the content is being deleted
		return s.failCreate("the %s %q is for the driver %q now", s.k.classKind(), class, s.class.driver)
	}
	parameters, problem := driverParameters(s.class.parameters)
	if problem != "" {
		return s.failCreate("%s %q: %s", s.k.classKind(), class, problem)
	}
	if s.ExtraMetadata { // SN-P3
		parameters[s.k.name], parameters[s.k.namespace] = c.ref.Name, c.ref.Namespace
		parameters[s.k.contentName] = c.Name
	}
	todo := CreateSnapshot{
		Name: s.Naming.Name(c.ref.UID), Volumes: c.volumes, Parameters: parameters, Secret: c.secret(),
	}
	switch {
	case has(c.Annotations, s.k.creating):
	case !s.Journal || s.k.isGroup():
		todo.Mark = s.k.creating
	default: // a snapshot whose handle is known is deleted by it, whatever a call does
		todo.Record = c.handle == ""
	}
	return contentDo{
		Finding: verdict.Because(verdict.ContentCreating,
			"the driver is asked for a %s of %s %q", s.k.noun, s.k.volumes, strings.Join(c.volumes, ", ")),
		Actions: []ContentAction{todo},
	}
}

func (s sidecarView) failCreate(format string, args ...any) ContentVerdict {
	return s.afterCreate(Answer{}, &Failure{Message: fmt.Sprintf(format, args...), NoAnswer: true})
}

// secretKeys are the parameters that the driver does not get (SN-P4).
var secretKeys = []string{
	names.ParameterSnapshotterSecretName, names.ParameterSnapshotterSecretNamespace,
	names.ParameterSnapshotterListSecretName, names.ParameterSnapshotterListSecretNamespace,
	names.ParameterGroupSnapshotterSecretName, names.ParameterGroupSnapshotterSecretNamespace,
	names.ParameterGroupSnapshotterGetName, names.ParameterGroupSnapshotterGetNamespace,
}

// driverParameters returns the parameters of a class that the driver gets: none that names a secret
// (SN-P4).
func driverParameters(class map[string]string) (parameters map[string]string, problem string) {
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

// find confirms a snapshot that exists already (SN-A9).
func (s sidecarView) find() ContentVerdict {
	c := s.content
	todo := FindSnapshot{Handle: c.handle, Snapshots: c.snapshots}
	if !s.Lists && !s.k.isGroup() { // what the content says counts as the answer
		return s.afterFind(Answer{Handle: c.handle, Ready: true}, nil)
	}
	if c.member {
		todo.Secret = c.secret()
	} else if s.class != nil {
		secret, problem := s.k.findSecret(s.class.parameters, secretref.SnapshotScope{Content: c.Name})
		if problem != nil {
			text := fmt.Sprintf("%s %q: %s %s", s.k.classKind(), s.class.Name, problem.Parameter, problem.Text)
			return s.afterFind(Answer{}, &Failure{Message: text, NoAnswer: true})
		}
		todo.Secret = secret
	}
	return contentDo{
		Finding: verdict.Because(verdict.ContentCreating, "the driver is asked about the %s %q", s.k.thing, c.handle),
		Actions: []ContentAction{todo},
	}
}
