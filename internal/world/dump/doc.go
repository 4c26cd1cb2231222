// Package dump is a client.Reader over a list of objects, such as a dump of a cluster. It answers as
// the informer cache does, with the same field indexes, so that a gather of package world can read
// either.
//
// It must not know any decision.
package dump
