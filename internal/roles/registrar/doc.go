// Package registrar is the role node-driver-registrar: the drop-in for upstream's program of this
// name.
//
// It turns flags into a registrar (internal/registrar), and what the kubelet answers into events on
// the Node. It must not know how a driver is registered.
package registrar
