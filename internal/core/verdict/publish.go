package verdict

// Reasons of the attacher. Its ClusterRole has no permission for events (AT-R2), so errors are in
// the status of the VolumeAttachment.
const (
	AttachmentNotOurs     Reason = "AttachmentNotOurs"
	AttachmentDone        Reason = "AttachmentDone"
	AttachmentReleased    Reason = "AttachmentReleased"
	AttachmentNodeAwaited Reason = "AttachmentNodeAwaited"
	AttachmentFailed      Reason = "AttachmentFailed"
	AttachmentHeld        Reason = "AttachmentHeld"
	Attaching             Reason = "Attaching"
	Detaching             Reason = "Detaching"
	VolumeStillAttached   Reason = "VolumeStillAttached"
	VolumeDetached        Reason = "VolumeDetached"
)

var publishInfos = map[Reason]Info{
	AttachmentNotOurs: silent("The VolumeAttachment is for another driver, or does not exist.",
		"Nothing to do."),
	AttachmentDone: silent("The volume is attached to the node.",
		"Nothing to do."),
	AttachmentReleased: silent("The volume is detached from the node.",
		"Nothing to do."),
	AttachmentNodeAwaited: silent("The node's CSINode does not have the driver yet, so the driver's id of the node is not known.",
		"kubectl get csinode NODE -o yaml: does the driver's node pod run there?"),
	AttachmentHeld: silent("Another VolumeAttachment of the same volume is attached or may be, and the volume may be attached to one node only.",
		"The attach continues when the other VolumeAttachment is gone. If no pod needs that one, delete it."),
	AttachmentFailed: silent("The driver failed to attach or detach the volume, or the VolumeAttachment names something that cannot be attached. It is retried.",
		"kubectl describe volumeattachment NAME: status.attachError or status.detachError has the message."),
	Attaching: silent("The driver is being asked to attach the volume.",
		"If this takes long, look at the driver's log."),
	Detaching: silent("The driver is being asked to detach the volume.",
		"If this takes long, look at the driver's log."),
	VolumeStillAttached: silent("The PersistentVolume is in use, or is being deleted and a VolumeAttachment names it, so the attacher's finalizer stays.",
		"kubectl get volumeattachments."),
	VolumeDetached: silent("The PersistentVolume is being deleted and is attached to no node, so the attacher's finalizer is removed.",
		"Nothing to do."),
}
