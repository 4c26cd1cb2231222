// Package binder is the PV controller: it binds claims to volumes, asks provisioners for volumes
// that are missing, and releases the volumes of claims that are gone. internal/binder/rules decides; this
// package keeps the indexes that the decisions need (the store), enqueues the keys that a change
// concerns, and writes.
//
// A claim and the volumes that name it are worked on under one key, many keys at a time. The only
// thing that two claims can both want is a volume that names neither: the store holds it for one
// of them, until the write that commits the choice is through the watch.
//
// [StateCollector] counts claims and volumes for the metrics, with upstream's names and labels (1.16):
// in the informer cache, at each scrape.
//
// It must not hold a rule about claims and volumes.
package binder
