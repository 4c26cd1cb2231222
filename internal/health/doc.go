// Package health brings the health that a CSI driver reports for its volumes to their users: into
// status.healthStatus of the claim, into events on it, and into metrics. internal/health/rules
// decides.
//
// The key is a PersistentVolume. A driver that lists the volumes with problems is asked for that
// list, page by page, once in an interval; a volume that is not on it any more is confirmed by a call
// of its own (HM-42). For a driver that cannot list, each volume has its turn within a period, at a
// place of its own, so that no burst of calls meets the driver whatever the number of volumes (HM-43,
// HM-H1).
//
// What the process knows of a volume is in [Memory]. It is lost with the process: the next one begins
// with the conditions that are stored in the claims.
//
// It must not know what a condition means, nor decide what users see.
//
// # Permissions
//
//	persistentvolumes, persistentvolumeclaims get, list, watch; persistentvolumeclaims/status patch;
//	events create, patch
package health
