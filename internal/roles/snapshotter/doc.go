// Package snapshotter is the roles csi-snapshotter and snapshot-controller, the drop-ins for the
// two programs of the external-snapshotter: their flags and feature gates, and how their
// controllers are built. The rules of snapshots are in internal/snapshot/rules.
package snapshotter
