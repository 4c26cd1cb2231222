// Package kubelet tests what is shipped: the images of `make driver-image` and the Helm chart, on a
// real kubelet with containerd.
package kubelet
