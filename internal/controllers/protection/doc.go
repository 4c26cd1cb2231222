// Package protection is the effects of protection: three controllers that put the protecting
// finalizers of claims, volumes and VolumeAttributesClasses on and take them off, as
// core/protection decides.
//
// # How a claim is let go
//
// The decision to let a claim go needs to know of every pod that has a node by now. Memory cannot
// know: a pod that was given its node a moment ago comes through the watch a moment later. Three
// proofs were weighed:
//
//   - One small read gives a resource version R, shared by all who wait, and then the watch of pods
//     must reach R. But R moves with every write to any object, first of all our own patches of the
//     claims, while the watch of pods moves with pods only, and else with a bookmark a minute. It
//     would nearly always end in a list after a wait.
//   - A list of the pods' metadata, compared with memory. It is exact, as is a list of the pods,
//     and still carries the larger part of each pod; where memory lags it needs a further wait.
//   - A list of the pods of the namespace, in pages, at the API server's newest state. It is exact
//     by itself.
//
// The last is what we do, once for all claims of a namespace that are waiting when the list begins.
// Claims that come while it runs are answered by the next one. No worker waits for it: the
// namespace has a queue of its own, and its claims are woken up with the answer. Before the
// finalizer comes off, memory is asked once more for what is newer than the list. So 1,000 claims
// deleted at once cost a few lists, and the time between the check and the write does not grow with
// the number of claims as it does upstream.
//
// # Permissions
//
//	claims:  persistentvolumeclaims get, list, watch, patch; pods list, watch; events create, patch
//	volumes: persistentvolumes get, list, watch, patch
//	classes: volumeattributesclasses (storage.k8s.io) get, list, watch, patch;
//	         persistentvolumes, persistentvolumeclaims list, watch;
//	         events create, patch
package protection
