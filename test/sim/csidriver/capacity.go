package csidriver

import "context"

// Room is the capacity of each node.
const Room = 100 << 30

// Capacity is GetCapacity with a script.
func (d *Driver) Capacity(ctx context.Context, node string, f Fault) (bytes int64, err error) {
	d.arrives("GetCapacity", node)
	err = d.run(ctx, "capacity of "+node, f, func() error {
		bytes = Room
		return nil
	})
	return bytes, err
}
