// Package boundclaim reads and writes bound claims and their volumes for the controllers that change
// volumes: it answers reads with this process's own writes, writes the status of a claim under its
// resourceVersion, and enqueues claims.
//
// It must not know what is changed, nor decide anything.
package boundclaim
