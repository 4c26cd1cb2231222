package intent

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/secretref"
)

// Entry is one unresolved CreateVolume request. It never has a secret value.
type Entry struct {
	Claim      types.NamespacedName
	UID        types.UID // of the claim; a later claim of the same name has another entry
	VolumeName string    // of the request and of the PersistentVolume
	// Request is repeated unchanged: the driver would answer another request of the same name with
	// AlreadyExists (C-45). Its Secrets field is empty.
	Request *csi.CreateVolumeRequest
	// Secrets are the references at the time of the request. The values of the provisioner secret
	// are added right before the call; all references go into the PersistentVolume. They are
	// recorded so that the request can be repeated without class and claim (H-47).
	Secrets secretref.Set
	// Replaced is the request that this one replaced, if it may have created a volume. The rules of
	// internal/provision/rules replace at most one.
	Replaced *Entry
	// Discarding says that DeleteVolume may be in flight for a volume of the request. A new leader
	// does not repeat the request before that call must have ended: if the driver derives ids from
	// names, the call would delete the volume that the repeated request returned.
	Discarding bool

	// Once says that at most one CreateVolume call was sent for the request, by any process. It is
	// recorded beside the entries before a second call, so a PersistentVolume of the request proves that
	// the call has ended: the volume was in its response. Without it, a PersistentVolume proves nothing:
	//
	//  1. the write of the PersistentVolume gets no response, and a live read does not find the object;
	//  2. CreateVolume is repeated, and the process is killed;
	//  3. the write arrives;
	//  4. the claim is deleted, and a new leader deletes the volume;
	//  5. the driver processes the repeated call, and nothing names its volume.
	Once bool

	// The fields below are not recorded, except [Known.Handle]: a new leader does not know them.

	// CallsEnd is set on entries of a previous leader: its calls must have ended by then. The
	// request of a live claim is repeated before that, since CreateVolume is idempotent by name. A
	// volume is deleted only after that: a call in flight would create it again, without any object
	// that names it.
	CallsEnd time.Time
	// Answered says that the outcome is known. The entry is kept until CallsEnd, so that the volume
	// is not deleted before.
	Answered bool
	// Known is what the calls have shown so far.
	Known Known
}

// Known is what is known of the volume of an entry. The zero value: it may exist.
type Known struct {
	// FinalErrors is the number of final errors in a row since a call for the request ended with an
	// uncertain error. It stays 1 while the claim wants the volume. A final error says nothing of
	// an earlier call: a driver checks credentials, quotas and sources before it looks for a volume
	// of that name (H-15).
	FinalErrors int
	// NoVolume says that each call of this request, unlike one of a replaced request, got a final
	// error, so that it created no volume.
	NoVolume bool
	// Handle is of a created volume that is to be deleted, from the response to this request. It is
	// recorded before DeleteVolume is called, so that a new leader need not repeat CreateVolume to
	// learn it. The driver may refuse that call: the source, the secret or the quota of the claim
	// can be gone with the claim (H-14).
	Handle string
}

// Repeated returns the entry for one more call of the request, whose outcome is not known.
func (e Entry) Repeated() Entry {
	e.Known, e.Answered = Known{}, false
	return e
}

// Replacing returns the entry with have as its replaced request, unless have created no volume.
func (e Entry) Replacing(have Entry) Entry {
	former := have.Replaced
	if !have.Known.NoVolume {
		former = &Entry{
			Claim: have.Claim, UID: have.UID, VolumeName: have.VolumeName, Request: have.Request,
			Secrets: have.Secrets, Replaced: have.Replaced,
		}
	}
	e.Once, e.Replaced = former == nil && have.CallsEnd.IsZero(), former.without(e.Request)
	e.CallsEnd, e.Discarding = have.CallsEnd, have.Discarding
	return e
}

// without returns the chain of replaced requests without the given one.
func (e *Entry) without(request *csi.CreateVolumeRequest) *Entry {
	switch {
	case e == nil:
		return nil
	case e.IsFor(request):
		return e.Replaced.without(request)
	}
	kept := *e
	kept.Replaced = e.Replaced.without(request)
	return &kept
}

// isOnlyCallAnswered reports whether the end of one call, which the caller knows, is the end of all
// calls that may create the volume. A DeleteVolume of the previous leader may still be in flight for
// an entry that is being discarded.
func (e Entry) isOnlyCallAnswered() bool { return e.Once && e.Replaced == nil && !e.Discarding }

// IsFor reports whether the entry has exactly this request.
func (e Entry) IsFor(request *csi.CreateVolumeRequest) bool { return proto.Equal(e.Request, request) }

const (
	// MaxUnrenewed is the time without a renewal after which the entries of a journal are stale.
	// Leaders change within seconds, and a provisioner that does not run is noticed within hours;
	// in a day another provisioner may have served the claims.
	MaxUnrenewed = 24 * time.Hour
	// Renewal is how often a leader renews a journal that has entries.
	Renewal = time.Hour
)

// IsStale reports whether the entries of a journal that was last renewed at the given time are
// stale; the zero time is unknown. The volume of a stale entry may have had another claim, which
// was deleted with its data retained. Only a claim that still exists disproves that, so stale
// entries without their claim are dropped (H-1).
func IsStale(renewed, now time.Time) bool { return now.Sub(renewed) > MaxUnrenewed }
