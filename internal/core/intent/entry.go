package intent

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/secretref"
)

// Entry is the record of one CreateVolume request that was sent and is not settled. It never holds
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
	// They are on record so that nothing can be wrong with them, and no class or claim is needed to
	// know them, once a volume may exist (H-47).
	Secrets secretref.Set
	// CallsEnd is set on entries of a previous leader: its calls must have ended by then. A live
	// claim has its request repeated before that, since CreateVolume is idempotent by name. The
	// volume is deleted after that only: a call in flight would create it again, and no object
	// would name it.
	CallsEnd time.Time
	// Answered says that the outcome is known, and that the entry is kept until CallsEnd so that the
	// volume is not deleted before. It is not on record: the next leader resolves the entry again.
	Answered bool
	// Unattended is set on entries of a former holder of the journal: for how long nobody had kept
	// them, when they were taken over by us or by somebody before us (see [Kept]). It counts until
	// a call for the entry is about to begin.
	Unattended time.Duration
	// Former has the request that this one has taken the place of, which a call may have met all
	// the same, and so on: the last ones of those that may have a volume.
	Former *Entry
	// Known is what calls have told so far. It is not on record: whoever takes an entry over knows
	// nothing.
	Known Known
}

// Known is what is known of the volume of an entry. The zero value is that it may exist.
type Known struct {
	// Refusals are how often in a row the driver has refused the request since a call for it ended
	// without a clear answer, or once for any number of times while the claim wants the volume. A
	// refusal speaks for its own call and for no earlier one: a driver looks at credentials, quotas
	// and sources before it looks for a volume of that name (H-15).
	Refusals int
	// Unmet is that each call with this request, unlike with one before it, was refused without
	// leaving anything.
	Unmet bool
	// Handle is the volume that a call has made and that is to be deleted again, when its deletion
	// has failed.
	Handle string
}

// Again is the entry for one more call with a request, of whose outcome nothing is known then.
func (e Entry) Again() Entry {
	e.Known, e.Unattended, e.Answered = Known{}, 0, false
	return e
}

// MostUnattended is for how long nobody may have kept the record, who keeps it writes it each
// [Renewal]. Leaders change within seconds, and a process that is not started is missed within
// hours; in a day somebody else may have served the claims in our place.
const (
	MostUnattended = 24 * time.Hour
	Renewal        = time.Hour
)

// IsStale reports whether nobody has kept the record for so long that the volume of the entry may
// have had an owner since, who has kept its data when the claim went (H-1).
func (e Entry) IsStale() bool { return e.Unattended > MostUnattended }

// mostFormers bounds how many former requests are kept in mind. There are two only where calls end
// without a clear answer again and again.
const mostFormers = 6

// InPlaceOf is the entry with another request than that on record, which an earlier call may have
// met all the same.
func (e Entry) InPlaceOf(have Entry) Entry {
	former := have.Former
	if !have.Known.Unmet {
		former = &Entry{
			Claim:      have.Claim,
			UID:        have.UID,
			VolumeName: have.VolumeName,
			Request:    have.Request,
			Secrets:    have.Secrets,
			Former:     have.Former,
		}
	}
	e.Former = former.without(e.Request, mostFormers)
	e.CallsEnd = have.CallsEnd
	return e
}

// without is the chain of former requests but for one, and no longer than so many.
func (e *Entry) without(request *csi.CreateVolumeRequest, most int) *Entry {
	switch {
	case e == nil || most == 0:
		return nil
	case e.Asks(request):
		return e.Former.without(request, most)
	}
	kept := *e
	kept.Former = e.Former.without(request, most-1)
	return &kept
}

// Asks reports whether the entry is for this very request.
func (e Entry) Asks(request *csi.CreateVolumeRequest) bool { return proto.Equal(e.Request, request) }
