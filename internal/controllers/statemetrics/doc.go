// Package statemetrics counts the claims and volumes of the cluster for metrics, with upstream's
// names and labels (1.16). It counts in the informer cache, at each scrape.
//
// It decides and changes nothing.
package statemetrics
