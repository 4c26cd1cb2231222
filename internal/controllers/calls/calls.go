package calls

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Calls are those under way, by the name of the volume and by its handle. The zero value has none. It is safe for concurrent use.
type Calls struct {
	mu       sync.Mutex
	underWay []call
}

// call is one under way. There are as many as a process has workers.
type call struct{ method, volume, handle string }

// Begin notes a call for a volume, by the name of its PersistentVolume, and by its handle, which another PersistentVolume can have too
// (D-37); empty where nobody knows it yet. end must be called when it has ended. The error is a gRPC status with the code Aborted, when
// another call for the volume is under way.
func (c *Calls) Begin(method, volume, handle string) (end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.underWay {
		if other.volume == volume || handle != "" && other.handle == handle {
			return nil, status.Errorf(codes.Aborted, "%s of volume %s is under way", other.method, other.volume)
		}
	}
	own := call{method, volume, handle}
	c.underWay = append(c.underWay, own)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := slices.Index(c.underWay, own); i >= 0 {
			c.underWay = slices.Delete(c.underWay, i, i+1)
		}
	}, nil
}
