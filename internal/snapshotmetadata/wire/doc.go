// Package wire is the gRPC service snapshotmetadata.SnapshotMetadata (CB-12): its messages, their
// encoding and the registration of a server. The messages are small and stable, so they are encoded
// here and not by generated code.
//
// It must not know who may call the service, or what is answered.
package wire
