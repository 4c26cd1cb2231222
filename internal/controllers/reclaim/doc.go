// Package reclaim carries out reclaiming: it reads the state of a PersistentVolume, lets
// core/reclaim decide, calls the CSI driver and writes the object and its finalizer.
//
// Reconcile keys are names of PersistentVolumes.
package reclaim
