// Package provision is the effects of provisioning: it gathers the world around a claim, lets
// core/provision decide, calls the CSI driver and writes the PersistentVolume.
//
// Reconcile keys are claims with their uid. A PersistentVolume is created here and from then on
// belongs to controllers/reclaim.
package provision
