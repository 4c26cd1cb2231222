// Package cluster runs a Kubernetes control plane for development and tests: etcd, kube-apiserver
// and, where asked for, kube-scheduler and kube-controller-manager, as child processes around one
// data folder.
//
// It decides with which flags, certificates and ports they run, in which order they start and stop,
// and when the whole is ready. Everything listens on 127.0.0.1 behind certificates of the cluster's
// own, so that another user of the machine can read neither the API nor etcd. Data, certificates
// and (where free) ports are kept across restarts, also after a kill: a kubeconfig handed out once
// stays valid.
//
// It installs the custom resources that it is given, such as those of snapshots.
//
// It must not know the use of the cluster: no volumes, no drivers, no objects beyond those that it
// waits for. It does not log; it returns errors that carry the end of the log that matters, and
// reports steps to a callback.
package cluster
