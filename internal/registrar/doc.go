// Package registrar registers a CSI driver with the kubelet of its node, as upstream's
// node-driver-registrar does: it serves the kubelet's plugin registration at a socket in the folder
// that the kubelet watches.
//
// It keeps the socket in step with the driver: it waits for the driver without a limit, makes the
// socket again when it is lost, and makes a new one, which the kubelet registers anew, when the
// driver comes back with another name or node. What is done is decided by package rules.
//
// [Service] is the kubelet's half alone, for a driver that registers itself. The package must not
// know flags, HTTP servers or Kubernetes objects.
package registrar
