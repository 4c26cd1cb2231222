// Package plane is the role plane: the roles controllers and csi-provisioner in one process, with
// one cache, and with claims handed over in memory.
package plane
