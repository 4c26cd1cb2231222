// Package ephemeral is the effects of generic ephemeral volumes: it creates the claims that
// core/ephemeral decides on. Reconcile keys are volumes of pods, so that each is tried, told of and
// backed off for itself.
//
// # Permissions
//
//	pods get, list, watch; pods/finalizers update (for ownerReferences with blockOwnerDeletion);
//	persistentvolumeclaims get, list, watch, create; events create, patch
package ephemeral
