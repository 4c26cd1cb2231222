// Package explain decides why an object of the volume plane is stuck: what it waits for, which
// fields show that, how to fix it, and who has to act.
//
// Its input is a [Cluster], the API objects of one moment. Where a controller of this program
// decides, the very decision function is called over these objects, which a [Gatherer] reads for it
// as the controller does. What other components decide (scheduler, kubelet, quota, a driver) is read
// from the traces that they leave: status fields, leases and events.
//
// The package must not know where the objects come from, nor how an answer is printed.
package explain
