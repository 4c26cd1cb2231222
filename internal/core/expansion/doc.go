// Package expansion decides what is said about a claim that asks for more than it has. The volume
// is grown by the CSI driver's resizer, which needs nothing from here, unless the volume is of a
// plugin that moved to CSI: then it needs to be named.
//
// It must not know of clients, caches, or drivers.
package expansion
