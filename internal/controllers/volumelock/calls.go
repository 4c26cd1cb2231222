package volumelock

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Locks are the calls in flight, by the name of the volume and by its handle. The zero value has
// none. It is safe for concurrent use.
type Locks struct {
	mu       sync.Mutex
	underWay []call
}

// call is a call in flight, or one that was answered. There are at most as many as the process has
// workers.
type call struct {
	method, volume, handle string
	answered               bool
}

// Begin locks a volume for a call, by the name of its PersistentVolume and by its handle, which
// another PersistentVolume can have too (D-37). The handle is empty where it is not known yet. end
// must be called when the call has ended. The error is a gRPC status with the code Aborted: another
// call for the volume is in flight. CreateVolume may follow an answered one, which it repeats.
func (c *Locks) Begin(method, volume, handle string) (end func(), err error) {
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

// Got blocks DeleteVolume for the handle that CreateVolume returned, until end is called, which is
// when its PersistentVolume is written. Another request may be answered with the same handle. The
// error, as that of [Locks.Begin], is for a volume that is being deleted, so that its existence is
// uncertain.
func (c *Locks) Got(volume, handle string) (end func(), err error) {
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
func (c *Locks) add(own call) (end func()) {
	c.underWay = append(c.underWay, own)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := slices.Index(c.underWay, own); i >= 0 {
			c.underWay = slices.Delete(c.underWay, i, i+1)
		}
	}
}
