// Package orphanreport compares the volumes that the driver lists with the PersistentVolumes, now
// and then, and reports those that no object names. It never deletes anything.
package orphanreport
