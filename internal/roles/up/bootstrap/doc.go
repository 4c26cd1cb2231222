// Package bootstrap creates the objects that a development cluster has from its administrator and
// its kubelet: namespaces, permissions, a node with a registered driver, and a default
// StorageClass.
package bootstrap
