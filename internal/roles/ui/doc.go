// Package ui is the commands ui and report: they read a cluster, a dump or a record as explain does,
// and serve or write the pages of internal/ui.
//
// It must not judge an object, and writes to no cluster.
package ui
