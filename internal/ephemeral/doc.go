// Package ephemeral is the controller of generic ephemeral volumes: it creates the claims that
// internal/ephemeral/rules decides on. Reconcile keys are volumes of pods, so that each has its own retries,
// events and backoff.
//
// # Permissions
//
//	pods get, list, watch; pods/finalizers update (for ownerReferences with blockOwnerDeletion);
//	persistentvolumeclaims get, list, watch, create; events create, patch
package ephemeral
