// Package capacity is the effects of publishing storage capacities: it asks the driver with
// GetCapacity and writes CSIStorageCapacity objects, as core/capacity decides.
//
// Two controllers work here. The first, csitopology, works out which capacities should be published
// from StorageClasses, Nodes and CSINodes; it waits for a moment, so that a thousand nodes that come
// at once are one run (S-3). The second, csistoragecapacity, has a key for each of them. A key waits
// in its queue once: for the next poll, after a failure, or at the head when a volume was created or
// deleted in its segment.
//
// Requests go through a client of their own, so that a limit on them holds up neither the leader
// election nor the provisioning of volumes (S-18, H-31).
//
// # Permissions
//
//	storageclasses, nodes, csinodes, persistentvolumes get, list, watch; events create, patch;
//	csistoragecapacities get, list, watch, create, update, delete in the namespace of the objects
package capacity
