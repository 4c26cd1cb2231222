// Package registration makes a driver known to the kubelet of its node.
//
// The kubelet watches a folder for sockets, calls GetInfo on each, and connects to the CSI socket
// in the answer. Other drivers run the sidecar node-driver-registrar for this; here the driver
// answers itself.
//
// It decides the answers to the kubelet. It must not know the services of CSI.
package registration
