// Package rules decides what the registrar does with its socket in the kubelet's folder, and what it
// answers to a health check: from what the driver says of itself, what is at the path of the socket,
// and what the kubelet has said. It must not know gRPC, files or clocks.
package rules
