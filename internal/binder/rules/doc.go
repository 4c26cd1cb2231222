// Package binding decides what becomes of a claim and of the volumes that name it: which volume it
// gets, in which order both are written, when it waits, asks a provisioner or is lost, and when a
// volume is available, bound or released.
//
// It is the PV controller of Kubernetes as two tables: T1 for claims and T2 for volumes
// (docs/design.md), and an index that finds the best static volume for a claim, and the best claim
// for a volume, without looking at all of them.
//
// It must not know how objects are read or written, nor when a decision is taken again.
package binding
