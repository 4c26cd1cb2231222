// Package statemetrics counts the claims and volumes of the cluster for metrics, with upstream's
// names and labels (1.16). It counts when it is asked, over what is in memory.
//
// It must not know why an object is as it is, nor change anything.
package statemetrics
