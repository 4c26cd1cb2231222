// Package world gathers the snapshots that decisions are made from: one file per decision.
//
// A gather is a pure read. It takes a client.Reader, which is the informer cache, a dump
// (world/dump) or a client of an API server; a memory, which is the state of this process beyond the
// API objects (own writes, answers, calls in flight) and whose zero value is a fresh process; and a
// key. It reserves, consumes and enqueues nothing, and so can be repeated at any time.
//
// The field indexes that a gather needs are declared beside it, so that the cache and a dump have
// the same ones. It must not judge what it reads.
package world
