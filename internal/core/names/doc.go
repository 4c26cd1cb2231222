// Package names holds every well-known key that Purser reads or writes on an API object:
// annotations, labels, finalizers, parameter keys. Each stands here once.
//
// The names are contracts with Kubernetes and with the upstream sidecars, so none may be changed.
// Names of our own carry the prefix "purser". The package must not know what any of the names is
// used for.
package names
