// Package expansion decides which event is emitted for a claim that requests more than its
// capacity. The volume is expanded by the CSI driver's resizer. It needs nothing from this package,
// unless the volume is of a migrated in-tree plugin: then an annotation names the resizer.
//
// It must not know of clients, caches, or drivers.
package expansion
