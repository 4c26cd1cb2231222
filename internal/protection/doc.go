// Package protection has the effects of protection: three controllers that add and remove the
// protecting finalizers of claims, volumes and VolumeAttributesClasses, as internal/protection/rules decides.
//
// # How a claim loses its finalizer
//
// The finalizer may be removed only if no scheduled pod uses the claim. The informer cache cannot
// prove that: a pod that was just scheduled arrives through the watch a moment later. Three proofs
// were compared:
//
//   - One small read returns a resourceVersion R for all waiting claims, and then the watch of pods
//     must reach R. But R grows with every write to any object, above all our own patches of the
//     claims. The watch of pods advances with pods only, and with one bookmark a minute. Nearly
//     always this ends in a list after a wait.
//   - A list of the pods' metadata, compared with the cache. It is exact, but transfers the larger
//     part of each pod, and a stale cache needs a further wait.
//   - A list of the pods of the namespace, in pages, at the API server's newest state. It is exact
//     by itself.
//
// The last one is used, once for all claims of a namespace that wait when the list begins. Claims
// that arrive during a list are answered by the next one. No worker waits for a list: namespaces
// have a queue of their own, and the result enqueues the claims. Before the finalizer is removed, the
// cache is read once more for pods that are newer than the list. So 1,000 claims that are deleted
// together cost a few lists, and the time between the check and the write does not grow with the
// number of claims, as it does upstream.
//
// # Permissions
//
//	claims:  persistentvolumeclaims get, list, watch, patch; pods list, watch; events create, patch
//	volumes: persistentvolumes get, list, watch, patch
//	classes: volumeattributesclasses (storage.k8s.io) get, list, watch, patch;
//	         persistentvolumes, persistentvolumeclaims list, watch;
//	         events create, patch
package protection
