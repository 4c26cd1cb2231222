package csidriver

import "context"

// Publication is a volume that is published to a node.
type Publication struct{ Volume, Node string }

// Published returns the publications of all volumes, in no order.
func (d *Driver) Published() (all []Publication) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.published {
		all = append(all, p)
	}
	return all
}

// Publish is ControllerPublishVolume with a script. The driver accepts any number of nodes for a
// volume: the caller must not violate the access mode. check is called with the state before the
// effect.
func (d *Driver) Publish(ctx context.Context, p Publication, f Fault, check func(before []Publication)) error {
	d.arrives("ControllerPublishVolume", p.Volume, p.Node)
	return d.run(ctx, p.Volume+"@"+p.Node, f, func() error {
		check(d.Published())
		d.mu.Lock()
		defer d.mu.Unlock()
		d.published[p] = true
		return nil
	})
}

// Unpublish is ControllerUnpublishVolume with a script.
func (d *Driver) Unpublish(ctx context.Context, p Publication, f Fault, check func(before []Publication)) error {
	d.arrives("ControllerUnpublishVolume", p.Volume, p.Node)
	return d.run(ctx, p.Volume+"@"+p.Node, f, func() error {
		check(d.Published())
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.published, p)
		return nil
	})
}
