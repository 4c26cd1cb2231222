// Package attachment decides for the attach-detach controller: on which nodes a volume is wanted,
// on which it is or may be attached, and what comes next: create or delete a VolumeAttachment, list
// or unlist the volume in a node's status, or wait.
//
// The state is read from API objects only (pods, claims, volumes, CSIDriver, VolumeAttachments,
// nodes), so that a new process knows what the previous one knew. The only memory is since when a
// volume is not wanted on a node, which the timer of a forced detach needs. Section numbers 4.x are
// those of docs/spec/volume-controllers.md.
//
// It must not know clients, caches or clocks.
package attachment
