// Package inventory fills the [explain.Cluster] that explanations are made from: by one LIST per
// kind from an API server, or from objects that were read from a file.
//
// It reads secrets by name only. It must not judge what it reads.
package inventory
