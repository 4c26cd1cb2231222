// Package publication remembers where volumes are published on this node.
//
// It decides which records count as publications: those on disk whose target
// really shows the volume. Records exist because the mount table alone cannot
// answer two questions of the CSI spec after a restart: with which arguments
// was this target published (NodePublishVolume: ALREADY_EXISTS), and is this
// volume in use (DeleteVolume: FAILED_PRECONDITION).
//
// A record is written before the mount is made and removed after the mount is
// gone. So a crash in between leaves a record without a mount, which is
// dropped when it is noticed, and never a mount without a record, whose volume
// could be deleted under a running pod.
//
// It must not know how things are mounted, nor what a volume is.
package publication
