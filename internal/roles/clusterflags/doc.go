// Package clusterflags has the flags by which a command finds its API server, with kubectl's names,
// and their completion.
//
// It must not know what a command does there.
package clusterflags
