// Package reclaim is the effects of reclaiming: it gathers the world around a PersistentVolume,
// lets core/reclaim decide, calls the CSI driver and changes the object and its finalizer.
//
// Reconcile keys are names of PersistentVolumes.
package reclaim
