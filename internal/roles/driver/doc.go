// Package driver is the role driver: the flags of the CSI plugin, the choice of its backend, and
// its HTTP endpoint.
package driver
