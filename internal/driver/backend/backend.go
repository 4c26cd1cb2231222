package backend

import "context"

// Backend keeps volumes.
type Backend interface {
	Rules
	Volumes
}

// Rules are what a backend allows. They change nothing and need no volume, so
// the driver can ask before it acts.
type Rules interface {
	// CheckCapability says with a fault.Invalid error what is wrong with a
	// capability that no volume of this backend can have.
	CheckCapability(Capability) error
	// CheckParameters does so for the parameters of a storage class.
	CheckParameters(map[string]string) error
}

// Volumes makes and removes volumes.
type Volumes interface {
	// Create makes a volume that does not exist. When it fails it leaves
	// nothing behind, or something that a repeated Create repairs.
	Create(context.Context, Request) (Volume, error)
	// Get describes a volume; fault.NotFound when there is none.
	Get(context.Context, ID) (Volume, error)
	// Delete removes a volume. One that does not exist is not an error
	// ("DeleteVolume": MUST reply OK).
	Delete(context.Context, ID) error
}

// Request asks for a new volume.
type Request struct {
	ID   ID
	Name string
	// Size is at least that of the source.
	Size Range
	// Asked is the required bytes of the caller, which may be fewer than the source has: the source was
	// made for such a request, and rounded up.
	Asked        int64
	Capabilities []Capability
	Parameters   map[string]string
	// Mutable are parameters that Modify can change later; only a Modifier
	// gets any.
	Mutable map[string]string
	// Source is what the volume begins with.
	Source Source
}

// Volume describes a volume that exists.
type Volume struct {
	ID   ID
	Name string
	// CapacityBytes is 0 when the volume has no size (Volume.capacity_bytes:
	// "unknown").
	CapacityBytes int64
	// LeastBytes is the least request for a volume that begins with this one, where that is less than
	// CapacityBytes; see LeastRequest.
	LeastBytes int64
	// Capabilities and Parameters are those of the request that made it.
	Capabilities []Capability
	Parameters   map[string]string
	Source       Source
}

// Range is a wish for a size. A zero is no wish; both zero leave the size to
// the backend.
type Range struct {
	Required int64
	Limit    int64
}

// Contains says whether a volume of this size fulfils the wish.
func (r Range) Contains(bytes int64) bool {
	return bytes >= r.Required && (r.Limit == 0 || bytes <= r.Limit)
}
