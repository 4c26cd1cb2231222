// Package snapshotmetadata serves the Kubernetes SnapshotMetadata API of one CSI driver, as
// upstream's external-snapshot-metadata does (KEP-3314): a backup program asks over TLS for the
// allocated blocks of a VolumeSnapshot, or for those that changed since another one.
//
// Each request has a token. The API server reviews it and the access of its user; the
// VolumeSnapshot is resolved to the driver's handle, and the driver's stream is checked and passed
// on. A client that does not read holds up the driver, not the memory of this process. Package
// rules decides what is refused; package wire has the messages. The package must not know flags.
//
// # Permissions
//
//	tokenreviews and subjectaccessreviews create; snapshotmetadataservices, volumesnapshots and
//	volumesnapshotclasses get, volumesnapshotcontents and volumesnapshotclasses list, secrets get
package snapshotmetadata
