// Package names has every well-known key that Purser reads or writes on an API object: annotations,
// labels, finalizers and parameters, each once.
//
// The names are contracts with Kubernetes and with the upstream sidecars, so none may be changed.
// Our own names have the prefix "purser". The package does not know how a name is used.
package names
