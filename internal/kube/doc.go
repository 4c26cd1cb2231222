// Package kube is the controllers' access to the API server: the scheme, the cache transforms that
// reduce memory, read-your-own-writes over the informer cache, patches of single fields, and
// events.
//
// It decides nothing about claims or volumes and must not import any package of core but names.
package kube
