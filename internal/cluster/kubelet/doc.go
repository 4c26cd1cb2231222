// Package kubelet runs a real kubelet and containerd as child processes, with images that are on
// this machine: no registry and no network plugin is needed for pods on the host's network.
//
// It decides where both keep their state, how they are configured, and how what they started ends:
// containers outlive containerd by themselves. It must not know volumes or objects of Kubernetes.
package kubelet
