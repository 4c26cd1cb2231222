package intent

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/secretref"
)

// Entry is the record of one CreateVolume request that was sent and is not resolved. It never holds
// a secret value.
type Entry struct {
	Claim      types.NamespacedName
	UID        types.UID // of the claim; the entry is about this claim only, whatever has its name by now
	VolumeName string    // of the request and of the PersistentVolume
	// Request is repeated as it is, since a different one with the same name would be refused with
	// AlreadyExists (C-45). Its Secrets field is empty.
	Request *csi.CreateVolumeRequest
	// Secrets refers to the secrets that were meant when the request was made. The values of the
	// provisioner's go into the request right before it is sent; all of them describe the volume.
	// They are recorded so that the request can be repeated without its class and claim (H-47).
	Secrets secretref.Set
	// Former is the request that this one has replaced, if that may have created a volume all the
	// same. The rules of core/provision let at most one be replaced.
	Former *Entry
	// Discarding says that DeleteVolume may be in flight for a volume of the claim while the claim
	// exists. A new leader does not repeat the request before that call must have ended: where the
	// driver makes its ids from the names, the call would delete the volume that the repeated request
	// was answered with.
	Discarding bool

	// The rest is not recorded: a new leader knows nothing of it.

	// CallsEnd is set on entries of a previous leader: its calls must have ended by then. A live
	// claim has its request repeated before that, since CreateVolume is idempotent by name. The
	// volume is deleted after that only: a call in flight would create it again, and no object
	// would name it.
	CallsEnd time.Time
	// Answered says that the outcome is known, and that the entry is kept until CallsEnd so that the
	// volume is not deleted before.
	Answered bool
	// Known is what calls have told so far.
	Known Known
}

// Known is what is known of the volume of an entry. The zero value is that it may exist.
type Known struct {
	// Refusals are how often in a row the driver gave the request a final error since a call for it
	// ended with an uncertain one, or once for any number of times while the claim wants the volume.
	// A final error speaks for its own call and for no earlier one: a driver looks at credentials,
	// quotas and sources before it looks for a volume of that name (H-15).
	Refusals int
	// Unmet is that each call with this request, unlike with one before it, got a final error and
	// left nothing.
	Unmet bool
	// Handle is the volume that a call has created and that is to be deleted again, when its
	// deletion has failed.
	Handle string
}

// Again is the entry for one more call with a request, of whose outcome nothing is known then.
func (e Entry) Again() Entry {
	e.Known, e.Answered = Known{}, false
	return e
}

// Replacing returns the entry with another request than the recorded one, which an earlier call may
// have met all the same.
func (e Entry) Replacing(have Entry) Entry {
	former := have.Former
	if !have.Known.Unmet {
		former = &Entry{
			Claim: have.Claim, UID: have.UID, VolumeName: have.VolumeName, Request: have.Request,
			Secrets: have.Secrets, Former: have.Former,
		}
	}
	e.Former, e.CallsEnd, e.Discarding = former.without(e.Request), have.CallsEnd, have.Discarding
	return e
}

// without returns the former requests but for one.
func (e *Entry) without(request *csi.CreateVolumeRequest) *Entry {
	switch {
	case e == nil:
		return nil
	case e.Asks(request):
		return e.Former.without(request)
	}
	kept := *e
	kept.Former = e.Former.without(request)
	return &kept
}

// Asks reports whether the entry is for this very request.
func (e Entry) Asks(request *csi.CreateVolumeRequest) bool { return proto.Equal(e.Request, request) }

const (
	// MaxUnrenewed is for how long a journal that has entries may not have been renewed before these
	// are stale. Leaders change within seconds, and a process that is not started is missed within
	// hours; in a day another provisioner may have served the claims.
	MaxUnrenewed = 24 * time.Hour
	// Renewal is how often a leader renews a journal that has entries.
	Renewal = time.Hour
)

// IsStale reports whether entries of a journal that was renewed last at the given time are stale:
// the volume of one may have had an owner since, who kept its data when the claim went. Only a claim
// that still exists proves that none did, so entries whose claim is gone are dropped (H-1). The zero
// time is not to know.
func IsStale(renewed, now time.Time) bool { return now.Sub(renewed) > MaxUnrenewed }
