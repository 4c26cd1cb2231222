// Package journal keeps the record of unsettled CreateVolume requests in the API server, so that it
// outlives the process.
//
// The record is a few Lease objects in Purser's own namespace, which the role that upstream ships
// with already allows. Each is rewritten in place under its resourceVersion: whoever writes first
// after a new leader has taken it over finds out that it is no longer the leader, and starts no
// further call. One write carries everything that was added and settled since the last.
//
// What stands on the record is for core/intent to say. This package must not know what a claim or a
// volume is.
package journal
