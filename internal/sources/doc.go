// Package sources adds the finalizer that keeps the source of a volume, a claim or a
// VolumeSnapshot, before CreateVolume is called for it, and removes it when the last user is done.
// What a user is, internal/sources/rules says.
//
// One lock for each source makes adding and removing one after the other, so that many volumes from
// one source cause one write each and no conflict (H-21), and that a finalizer is never removed
// under a call that has just begun.
//
// It must not know requests or drivers; internal/provision tells it when a call begins and ends.
package sources
