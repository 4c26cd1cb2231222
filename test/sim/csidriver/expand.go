package csidriver

import (
	"context"
	"strconv"
)

// Expansion is a ControllerExpandVolume call.
type Expansion struct {
	Volume string
	Bytes  int64
}

// Size returns the bytes that a volume has; 0 for one that does not exist.
func (d *Driver) Size(id string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.byID(id); v != nil {
		return v.Bytes
	}
	return 0
}

// SetSize sets the bytes of a volume that another client made.
func (d *Driver) SetSize(id string, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.byID(id); v != nil {
		v.Bytes = bytes
	}
}

// Expand is ControllerExpandVolume with a script. allow is called before the effect; its error is
// the answer.
func (d *Driver) Expand(ctx context.Context, e Expansion, f Fault, allow func() error) error {
	d.arrives("ControllerExpandVolume", e.Volume, strconv.FormatInt(e.Bytes, 10))
	return d.run(ctx, e.Volume, f, func() error {
		if err := allow(); err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if v := d.byID(e.Volume); v != nil {
			v.Bytes = max(v.Bytes, e.Bytes)
		}
		return nil
	})
}
