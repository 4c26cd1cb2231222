// Package driver is the role driver: the flags of the CSI plugin, the choice of its backend, and
// its HTTP endpoint. [Server] makes the driver known to a kubelet.
package driver
