// Package check tries a StorageClass: it makes a claim, mounts it in a pod, writes, expands,
// snapshots, restores, clones and deletes, and measures each. All objects have one label, and are
// deleted whatever happens.
//
// It must not decide which steps a class allows: that is in internal/daytwo/rules.
package check
