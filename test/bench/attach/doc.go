// Package attach measures how volumes are attached and detached: virtual nodes whose status is written
// as a kubelet does, and in turn each combination of the attach-detach controllers and the attachers of
// Kubernetes and of Purser. For each it prints the time from a bound pod to the node's list on an idle
// cluster, the time that a pod which moves waits, the rate and the percentiles of many volumes at once,
// the requests by verb, and the calls of the driver.
package attach
