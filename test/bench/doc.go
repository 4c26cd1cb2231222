// Command bench counts what volumes cost: API requests by who makes them, calls to the CSI driver, and then how fast it all is
// beside a floor that is measured in the same run. Counts are exact and the same on every machine; rates are not, so they are
// told as a part of the floor too.
//
// With -present it measures instead what a provisioner needs for volumes that are there, and with -failover how long claims wait
// when the leader of two provisioners ends.
//
// It ends with 1 if a claim did not get its volume, or if a volume was left over.
package main
