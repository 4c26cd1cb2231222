// Package capacity decides which CSIStorageCapacity objects a driver's provisioner publishes, their
// content, and which objects are deleted.
//
// An object states the free capacity for volumes of one StorageClass in one topology segment. The
// scheduler reads these objects when it picks a node for a pod.
//
// The package must not know how the driver is called, or when.
package capacity
