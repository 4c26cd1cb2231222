// Package scrape reads the metrics of a provisioner the way Prometheus does.
package scrape
