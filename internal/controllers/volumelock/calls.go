package volumelock

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Locks are those under way, by the name of the volume and by its handle. The zero value has none. It is safe for concurrent use.
type Locks struct {
	mu       sync.Mutex
	underWay []call
}

// call is one under way, or one that was answered. There are as many as a process has workers.
type call struct {
	method, volume, handle string
	answered               bool
}

// Begin notes a call for a volume, by the name of its PersistentVolume, and by its handle, which another PersistentVolume can have too
// (D-37); empty where nobody knows it yet. end must be called when it has ended. The error is a gRPC status with the code Aborted, when
// another call for the volume is under way. A call that makes the volume may follow one that was answered, which it repeats.
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

// Got notes with which handle a call was answered that makes volumes, until that is written down: nobody deletes it before. Another
// request may be answered with it too. The error, as that of [Locks.Begin], is for a volume that is being deleted, so that nobody knows
// whether there is one.
func (c *Locks) Got(volume, handle string) (end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.underWay {
		if handle != "" && other.handle == handle && !other.answered {
			return nil, status.Errorf(codes.Aborted, "the driver answered with volume %s, and %s of it is under way for %s", handle, other.method, other.volume)
		}
	}
	return c.add(call{method: "CreateVolume", volume: volume, handle: handle, answered: true}), nil
}

// add says how the call ends. The caller holds mu.
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
