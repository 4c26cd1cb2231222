// Package plane is the role plane: the roles controllers and csi-provisioner in one process, with
// one informer cache, and a queue in memory for claims.
package plane
