// Package node is the role node: it mounts the volumes of pods on nodes without a kubelet.
package node
