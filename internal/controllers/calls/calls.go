package calls

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Calls are those under way, by the name of the volume. The zero value has none. It is safe for concurrent use.
type Calls struct {
	mu       sync.Mutex
	underWay map[string]string
}

// Begin notes a call for a volume, by the name of its PersistentVolume; end must be called when it has ended. The error is a gRPC status
// with the code Aborted, when another call for the volume is under way.
func (c *Calls) Begin(method, volume string) (end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, busy := c.underWay[volume]; busy {
		return nil, status.Errorf(codes.Aborted, "%s of volume %s is under way", other, volume)
	}
	if c.underWay == nil {
		c.underWay = map[string]string{}
	}
	c.underWay[volume] = method
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.underWay, volume)
	}, nil
}
