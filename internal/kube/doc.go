// Package kube is how the controllers meet the API server: which types they know, what of each
// object is kept in memory, reading one's own writes, patches that touch one thing only, and
// events.
//
// It decides nothing about claims or volumes and must not import any package of core but names.
package kube
