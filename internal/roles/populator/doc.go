// Package populator has the two commands of populators: `purser populator http`, the controller, which runs
// once in a cluster, and `purser populate http`, which runs in the pod that it makes for a claim. What they
// do is in internal/populate; this package knows flags, the lease and the permissions.
package populator
