// Package registration makes a driver known to the kubelet of its node.
//
// The kubelet watches a folder for sockets, asks each one who it is, and calls
// the CSI socket that the answer names. Others run a sidecar for this; here
// the driver answers itself.
//
// It decides what the kubelet is told. It must not know the services of CSI.
package registration
