// Package node runs the node agent on a real API server, with the real driver and real mounts: no
// controller beside it. A proxy in front of the driver counts the calls, and can hold or fail them.
package node
