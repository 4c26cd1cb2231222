// Package orphanreport compares the volumes that the driver lists with the PersistentVolumes, now
// and then, and reports those that nobody knows of. It never deletes anything.
package orphanreport
