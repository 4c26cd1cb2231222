// Package rules decides what the service of snapshot metadata answers: which requests are refused
// and with which gRPC code, which handle a VolumeSnapshot has, and whether the blocks of a driver
// are in order.
//
// It must not know connections, clients or the encoding of messages. The row IDs are explained in
// docs/spec/snapshot-metadata.md.
package rules
