// Package explain decides why an object of the volume plane is stuck: what it waits for, which
// fields show that, how to fix it, and who has to act.
//
// Its input is a [Cluster], the API objects of one moment. For a controller of this program its
// decision function is called; a [Gatherer] reads the objects for it as the controller does. The
// state of other components (scheduler, kubelet, quota, a driver) is derived from status fields,
// leases and events.
//
// The package must not know where the objects come from, nor how an answer is printed.
package explain
