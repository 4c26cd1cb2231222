// Package capacity decides which CSIStorageCapacity objects a driver's provisioner publishes, what
// stands in them, and which objects are deleted.
//
// An object says how much room the storage has for the volumes of one StorageClass in one topology
// segment. The scheduler picks a node for a pod from these objects.
//
// The package must not know how the driver is called, or when.
package capacity
