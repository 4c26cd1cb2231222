package csidriver

import "github.com/container-storage-interface/spec/lib/go/csi"

// AddSource has the backend hold a snapshot.
func (d *Driver) AddSource(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshots[id] = true
}

// RemoveSource deletes a snapshot.
func (d *Driver) RemoveSource(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.snapshots, id)
}

// HasSource reports whether there is a snapshot or a volume with the id.
func (d *Driver) HasSource(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snapshots[id] || d.byID(id) != nil
}

// Has reports whether there is a volume of the name.
func (d *Driver) Has(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.volumes[name] != nil
}

// has reports whether the source of a request exists. The caller holds d.mu.
func (d *Driver) has(from *csi.VolumeContentSource) bool {
	if from.GetSnapshot() != nil {
		return d.snapshots[from.GetSnapshot().GetSnapshotId()]
	}
	return d.byID(from.GetVolume().GetVolumeId()) != nil
}
