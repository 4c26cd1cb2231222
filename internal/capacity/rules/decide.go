package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is the result of a decision of this package.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Snapshot is all that the decision about one key depends on.
type Snapshot struct {
	Key       Key
	IsPlanned bool                            // the key should be published
	Class     *storagev1.StorageClass         // nil: it does not exist
	Objects   []*storagev1.CSIStorageCapacity // of this publisher with this key
	Rules     Rules
	// FailingFor is the time since the last good response, if GetCapacity calls for this key fail
	// now; else 0.
	FailingFor time.Duration
	// MaxAge is the age at which a published capacity is withdrawn while GetCapacity fails; 0 for
	// never.
	MaxAge time.Duration
	// UnseenFor is the time since this process wrote an object that the cache has not shown since; 0 if it
	// has shown all, or they were read from the API server.
	UnseenFor time.Duration
	Poll      time.Duration // between two runs of a key
}

// ReadObject is what a decision asks for if it depends on whether an object still exists.
func ReadObject(object *storagev1.CSIStorageCapacity) verdict.Ref {
	return verdict.Ref{What: "CSIStorageCapacity", Namespace: object.Namespace, Name: object.Name}
}

// Action is one of [GetCapacity], [Create], [Update] and [Delete].
//
//sumtype:decl
type Action interface{ isAction() }

type (
	// GetCapacity calls the driver. [Snapshot.AfterAnswer] or [Snapshot.AfterFailure] is next.
	GetCapacity struct{ Request *csi.GetCapacityRequest }
	// Create writes a new object. If an object with its name exists, [Snapshot.AfterExists] is
	// next.
	Create struct {
		Object *storagev1.CSIStorageCapacity
	}
	// Update updates an object with its resourceVersion as precondition.
	Update struct {
		Object *storagev1.CSIStorageCapacity
	}
	// Delete deletes an object with its uid and resourceVersion as preconditions.
	Delete struct {
		Object *storagev1.CSIStorageCapacity
	}
)

func (GetCapacity) isAction() {}
func (Create) isAction()      {}
func (Update) isAction()      {}
func (Delete) isAction()      {}

// Decide returns what to do for one key. A planned key has GetCapacity called and the response
// published. An unplanned key has its objects deleted. Of several objects with one key all but one
// are deleted (S-10).
func Decide(s Snapshot) Verdict {
	if !s.IsPlanned || !s.Rules.publishes(s.Class) {
		then := nothing{Finding: verdict.Because(
			verdict.CapacityNotPlanned, "no class or no node has this segment any more",
		)}
		return withDeletions(then, s.Objects)
	}
	// If the watch was interrupted and another client deleted the object, no event says so.
	if s.UnseenFor > 0 && s.UnseenFor >= s.Poll/2 {
		var refs []verdict.Ref
		for _, object := range s.Objects {
			refs = append(refs, ReadObject(object))
		}
		return verdict.MustRead[Action](refs...)
	}
	_, surplus := s.split()
	asked := verdict.Because(verdict.CapacityPublished, "ask the driver for the capacity of %s", s.Key.String())
	actions := append(deletions(surplus), GetCapacity{Request: s.request()})
	return do{Finding: asked, Actions: actions, Then: nothing{Finding: asked}}
}

func withDeletions(then nothing, objects []*storagev1.CSIStorageCapacity) Verdict {
	if len(objects) == 0 {
		return then
	}
	return do{Finding: then.Finding, Actions: deletions(objects), Then: then}
}

func deletions(objects []*storagev1.CSIStorageCapacity) []Action {
	var actions []Action
	for _, object := range objects {
		actions = append(actions, Delete{object})
	}
	return actions
}

// split returns the oldest object with the key, which stays, and the surplus objects.
func (s Snapshot) split() (stays *storagev1.CSIStorageCapacity, surplus []*storagev1.CSIStorageCapacity) {
	for _, object := range s.Objects {
		switch {
		case stays == nil:
			stays = object
		case isOlder(object, stays):
			surplus, stays = append(surplus, stays), object
		default:
			surplus = append(surplus, object)
		}
	}
	return stays, surplus
}

func isOlder(a, b *storagev1.CSIStorageCapacity) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// request returns the GetCapacity request. Parameters with reserved prefixes are for the sidecars
// and are left out, as in CreateVolume (S-7).
func (s Snapshot) request() *csi.GetCapacityRequest {
	request := &csi.GetCapacityRequest{}
	for key, value := range s.Class.Parameters {
		if strings.HasPrefix(key, names.ParameterPrefix) || strings.HasPrefix(key, names.OwnParameterPrefix) {
			continue
		}
		if request.Parameters == nil {
			request.Parameters = map[string]string{}
		}
		request.Parameters[key] = value
	}
	if labels := s.Key.Segment.Labels(); labels != nil {
		request.AccessibleTopology = &csi.Topology{Segments: labels}
	}
	return request
}

// AfterAnswer returns what to write after a successful GetCapacity (S-8).
func (s Snapshot) AfterAnswer(answer *csi.GetCapacityResponse) Verdict {
	available, most := answer.GetAvailableCapacity(), answer.GetMaximumVolumeSize()
	if available < 0 || most.GetValue() < 0 {
		return refuse{Finding: verdict.Because(
			verdict.CapacityInvalid,
			"the driver answers GetCapacity for %s with available_capacity=%d and maximum_volume_size=%d; neither "+
				"may be negative",
			s.Key, available, most.GetValue(),
		)}
	}
	var maximum *resource.Quantity
	if most != nil {
		maximum = new(size.Quantity(most.GetValue()))
	}
	stays, _ := s.split()
	published := verdict.Because(verdict.CapacityPublished, "%s", s.Key.String()+" is published")
	return s.write(stays, new(size.Quantity(available)), maximum, nothing{Finding: published})
}

// AfterExists returns what to write when Create finds an object with the same name. The cache did
// not have that object: the cache is stale, or the object's labels were removed (S-10, S-12).
func (s Snapshot) AfterExists(wanted, live *storagev1.CSIStorageCapacity) Verdict {
	published := verdict.Because(verdict.CapacityPublished, "%s", s.Key.String()+" is published")
	if key, ok := KeyOf(live); !ok || key != s.Key { // nodeTopology and storageClassName are immutable
		return do{
			Finding: published,
			Actions: []Action{Delete{live}, Create{wanted}},
			Then:    nothing{Finding: published},
		}
	}
	return s.write(live, wanted.Capacity, wanted.MaximumVolumeSize, nothing{Finding: published})
}

// AfterFailure returns what to do when GetCapacity failed. The last response stays published until
// it is older than MaxAge. Then the capacity is removed from the object, so the scheduler picks no
// node of the segment. Upstream keeps the old value for ever (S-9).
func (s Snapshot) AfterFailure(code, words string) Verdict {
	failed := verdict.Finding{Reason: verdict.CapacityFailed, Code: code, Message: fmt.Sprintf(
		"the driver does not say the capacity of %s: %s", s.Key, words,
	)}
	if s.MaxAge <= 0 || s.FailingFor < s.MaxAge {
		return refuse{Finding: failed}
	}
	failed.Reason = verdict.CapacityUnknown
	failed.Message = fmt.Sprintf(
		"%s, for %s now; the published capacity is withdrawn", failed.Message, s.FailingFor.Round(time.Second),
	)
	stays, _ := s.split()
	if stays == nil {
		return refuse{Finding: failed}
	}
	return s.write(stays, nil, nil, refuse{Finding: failed})
}

// write returns the action that gives an object these values, followed by the verdict then. A nil
// object is created.
func (s Snapshot) write(
	current *storagev1.CSIStorageCapacity, capacity, maximum *resource.Quantity, then Verdict,
) Verdict {
	var action Action
	if current == nil {
		action = Create{s.object(capacity, maximum)}
	} else {
		object := current.DeepCopy()
		object.Capacity, object.MaximumVolumeSize = capacity, maximum
		s.Rules.mark(object)
		if isSame(current, object) {
			return then
		}
		action = Update{object}
	}
	return do{Finding: then.Because(), Actions: []Action{action}, Then: then}
}

// isSame reports whether two objects are equal in the fields that a publisher writes.
func isSame(a, b *storagev1.CSIStorageCapacity) bool {
	return ValuesOf(a) == ValuesOf(b) &&
		a.Labels[names.LabelCapacityDriver] == b.Labels[names.LabelCapacityDriver] &&
		a.Labels[names.LabelCapacityManagedBy] == b.Labels[names.LabelCapacityManagedBy] &&
		slices.EqualFunc(a.OwnerReferences, b.OwnerReferences, isSameOwner)
}
