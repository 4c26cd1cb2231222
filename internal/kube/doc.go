// Package kube is the controllers' access to the API server: the scheme, the cache transforms that
// reduce memory, read-your-own-writes over the informer cache, patches of single fields, and
// events.
//
// [Dump] is a client.Reader over a list of objects, such as a dump of a cluster. It answers as the
// informer cache does, with the same field indexes, so that a gather can read either.
//
// It decides nothing about claims or volumes.
package kube
