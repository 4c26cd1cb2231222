// Package attachment keeps the record of the nodes that each volume is attached
// to: what ControllerPublishVolume has promised and ControllerUnpublishVolume
// has not taken back.
//
// It decides whether a volume may be attached to one more node. The record of a
// volume is on disk before the call is answered, and is removed before
// ControllerUnpublishVolume is answered. So a crash leaves a record of a call
// that was never answered, which a repeated call finds, and never an attachment
// without a record.
//
// It must not know what a volume is, which nodes exist, or what attaching does.
package attachment
