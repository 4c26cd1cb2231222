// Package provision carries out provisioning: it reads the state of a claim, lets internal/provision/rules
// decide, calls the CSI driver and writes the PersistentVolume.
//
// Reconcile keys are claims with their uid. The PersistentVolume belongs to internal/reclaim
// once it is created.
package provision
