// Package fault classifies what can go wrong in a driver.
//
// It decides the vocabulary: every error that a caller should react to has
// one Kind. It must not know gRPC: the package driver translates a Kind into
// a status code, once, where a call leaves the process.
package fault
