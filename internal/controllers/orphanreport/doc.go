// Package orphanreport compares the driver's volumes with the PersistentVolumes at an interval, and
// reports those that no object names. It never deletes anything.
package orphanreport
