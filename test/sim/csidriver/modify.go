package csidriver

import "context"

// Modification is a ControllerModifyVolume call.
type Modification struct {
	Volume string
	Class  string // of the mutable parameters
}

// Class returns the class that a volume has; empty for none.
func (d *Driver) Class(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if accepted := d.accepted(id); len(accepted) > 0 {
		return accepted[len(accepted)-1]
	}
	return ""
}

// Accepted returns the classes that a volume ever had, in their order.
func (d *Driver) Accepted(id string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.accepted(id)
}

func (d *Driver) accepted(id string) []string {
	if v := d.byID(id); v != nil {
		return v.Classes
	}
	return nil
}

// SetClass gives a class to a volume that another client made.
func (d *Driver) SetClass(id, class string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.byID(id); v != nil {
		v.Classes = append(v.Classes, class)
	}
}

// Modify is ControllerModifyVolume with a script. allow is called before the effect; its error is
// the answer.
func (d *Driver) Modify(ctx context.Context, m Modification, f Fault, allow func() error) error {
	d.arrives("ControllerModifyVolume", m.Volume, m.Class)
	return d.run(ctx, m.Volume, f, func() error {
		if err := allow(); err != nil {
			return err
		}
		d.SetClass(m.Volume, m.Class)
		return nil
	})
}
