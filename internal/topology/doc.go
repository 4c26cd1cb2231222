// Package topology computes where a volume must be accessible from, and where a created volume is.
//
// It generates the accessibility requirement of a CreateVolume request from the selected node, the
// topology of all nodes and the allowedTopologies of a class, and the node affinity of a
// PersistentVolume from the response. It must not know how nodes are found.
package topology
