// Package reclaim carries out reclaiming: it reads the state of a PersistentVolume, lets
// internal/reclaim/rules decide, calls the CSI driver and writes the object and its finalizer.
//
// Beside the controller stand two that work at an interval. [Reaper] lets one central instance reclaim
// the volumes of nodes that were removed from the cluster, which the instances of --node-deployment
// cannot do any more (N-12): it decides which volumes these are, and the controller checks the rest.
// [OrphanAudit] compares the driver's volumes with the PersistentVolumes and reports those that no
// object names; it deletes none.
//
// Reconcile keys are names of PersistentVolumes.
package reclaim
