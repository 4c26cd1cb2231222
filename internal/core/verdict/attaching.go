package verdict

// Reasons of the attach-detach controller and of the attacher.
const (
	AttachNotNeeded   Reason = "AttachNotNeeded"
	AttachRequested   Reason = "AttachRequested"
	AttachSucceeded   Reason = "AttachSucceeded"
	AttachRetried     Reason = "AttachRetried"
	DetachRequested   Reason = "DetachRequested"
	DetachForced      Reason = "DetachForced"
	AttachmentForeign Reason = "AttachmentForeign"
	AttachmentGone    Reason = "AttachmentGone"
)

var attachingInfos = map[Reason]Info{
	AttachNotNeeded: silent("No pod on a node needs the volume attached, or its driver needs no attachment, and nothing is attached.",
		"Nothing to do. CSIDriver.spec.attachRequired says whether the driver's volumes are attached."),
	AttachRequested: silent("A pod on a node needs the volume; its VolumeAttachment is created.",
		"If it stays unattached: is the driver's csi-attacher running?"),
	AttachSucceeded: silent("The volume is attached to each node that needs it, and the node's status lists it.",
		"Nothing to do."),
	AttachRetried: silent("The attacher has reported an error in the VolumeAttachment. It tries again by itself.",
		"The event FailedAttachVolume of the pod has the error."),
	DetachRequested: silent("No pod on the node needs the volume and the node does not use it, so its VolumeAttachment is deleted.",
		"If the VolumeAttachment stays: is the driver's csi-attacher running?"),
	DetachForced: silent("The volume is detached although the node reports it in use: the node was not ready for too long, or has the taint out-of-service.",
		"Make sure that the node is really down: a process on it could still write to the volume."),
	AttachmentForeign: silent("A VolumeAttachment for the volume was not made by the attach-detach controller: its name is not the one that belongs to it. It is left alone.",
		"Find the program that made it. It blocks other nodes if the volume may be attached to one node only. Delete it by hand if it is not needed."),
	AttachmentGone: silent("The VolumeAttachment does not exist any more.",
		"Nothing to do."),
}
