// Package capacity publishes storage capacities: it calls GetCapacity and writes CSIStorageCapacity
// objects, as internal/capacity/rules decides.
//
// There are two controllers. The first, csitopology, computes from StorageClasses, Nodes and
// CSINodes which capacities should be published. It waits for half a second after a change, so that
// a thousand new nodes are one run (S-3). The second, csistoragecapacity, has one key for each
// capacity. A key is in its queue at most once: until the next poll, with backoff after a failure,
// or with high priority after a volume was created or deleted in its segment.
//
// API requests go through a separate client, so that its rate limit delays neither the leader
// election nor the provisioning of volumes (S-18, H-31).
//
// # Permissions
//
//	storageclasses, nodes, csinodes, persistentvolumes get, list, watch; events create, patch;
//	csistoragecapacities get, list, watch, create, update, delete in the namespace of the objects
package capacity
