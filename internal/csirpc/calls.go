package csirpc

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// VolumeLocks has the calls in flight, by the name of the volume and by its handle. The zero value has
// none. It is safe for concurrent use.
type VolumeLocks struct {
	mu       sync.Mutex
	underWay []call
}

// call is a call in flight, or one whose PersistentVolume is not written yet. There are at most as
// many as workers.
type call struct {
	method, volume, handle string
	answered               bool
}

// Begin locks a volume for a call, by the name of its PersistentVolume and by its handle, which
// another PersistentVolume may have, too (D-37). An unknown handle is empty. end must be called
// when the call has ended. The error has the gRPC code Aborted: another call for the volume is in
// flight. CreateVolume may begin while an earlier response of it is still blocked, since it repeats
// that call.
func (c *VolumeLocks) Begin(method, volume, handle string) (end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.underWay {
		repeated := other.answered && other.method == method
		if other.volume == volume && !repeated || handle != "" && other.handle == handle {
			return nil, status.Errorf(codes.Aborted, "%s of volume %s is under way", other.method, other.volume)
		}
	}
	return c.add(call{method: method, volume: volume, handle: handle}), nil
}

// LockHandle blocks DeleteVolume for the handle that CreateVolume returned, until end is called once the
// PersistentVolume is written. Several requests may be answered with one handle. The error has the
// code Aborted: a DeleteVolume of the handle is in flight, so it is uncertain whether the volume
// exists.
func (c *VolumeLocks) LockHandle(volume, handle string) (end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.underWay {
		if handle != "" && other.handle == handle && !other.answered {
			return nil, status.Errorf(
				codes.Aborted,
				"the driver answered with volume %s, and %s of it is under way for %s",
				handle,
				other.method,
				other.volume,
			)
		}
	}
	return c.add(call{method: "CreateVolume", volume: volume, handle: handle, answered: true}), nil
}

// add returns the function that ends the call. The caller holds mu.
func (c *VolumeLocks) add(own call) (end func()) {
	c.underWay = append(c.underWay, own)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := slices.Index(c.underWay, own); i >= 0 {
			c.underWay = slices.Delete(c.underWay, i, i+1)
		}
	}
}
