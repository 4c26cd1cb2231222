package verdict

// Reasons of the attach-detach controller and of the attacher.
const (
	AttachNotNeeded       Reason = "AttachNotNeeded"
	AttachRequested       Reason = "AttachRequested"
	AttachSucceeded       Reason = "AttachSucceeded"
	AttachRetried         Reason = "AttachRetried"
	DetachRequested       Reason = "DetachRequested"
	DetachForced          Reason = "DetachForced"
	AttachmentForeign     Reason = "AttachmentForeign"
	AttachmentGone        Reason = "AttachmentGone"
	AttachmentNotOurs     Reason = "AttachmentNotOurs"
	AttachmentPublished   Reason = "AttachmentPublished"
	PublishRequested      Reason = "PublishRequested"
	PublishInvalid        Reason = "PublishInvalid"
	PublishFailed         Reason = "PublishFailed"
	PublishBlocked        Reason = "PublishBlocked"
	UnpublishRequested    Reason = "UnpublishRequested"
	UnpublishFailed       Reason = "UnpublishFailed"
	VolumeHeldByAttacher  Reason = "VolumeHeldByAttacher"
	VolumeFreedByAttacher Reason = "VolumeFreedByAttacher"
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
	DetachForced: silent("The volume is detached although the node reports it in use: the node is unhealthy for too long, or has the taint out-of-service.",
		"Make sure that the node is really down: a process on it could still write to the volume."),
	AttachmentForeign: silent("A VolumeAttachment for the volume was not made by the attach-detach controller: its name is not the one that belongs to it. It is left alone.",
		"Find the program that made it. It blocks other nodes if the volume may be attached to one node only. Delete it by hand if it is not needed."),
	AttachmentGone: silent("The VolumeAttachment does not exist any more.",
		"Nothing to do."),
	AttachmentNotOurs: silent("The VolumeAttachment is for another driver, or another finalizer holds it.",
		"Nothing to do."),
	AttachmentPublished: silent("The volume is attached and the VolumeAttachment says so.",
		"Nothing to do."),
	PublishRequested: silent("The driver is asked to attach the volume (ControllerPublishVolume).",
		"If this takes long, look at the log of the driver's controller."),
	PublishInvalid: silent("The volume cannot be attached as the objects are. The error is in the VolumeAttachment.",
		"The message names the object and the field. A change of it is noticed at once."),
	PublishFailed: silent("The driver failed to attach the volume. The error is in the VolumeAttachment; the call is repeated with growing delays.",
		"The message is the driver's."),
	PublishBlocked: silent("The volume may be on one node only and another VolumeAttachment may still have it published on another node.",
		"It goes on by itself when the other VolumeAttachment is gone."),
	UnpublishRequested: silent("The driver is asked to detach the volume (ControllerUnpublishVolume).",
		"If this takes long, look at the log of the driver's controller."),
	UnpublishFailed: silent("The driver failed to detach the volume, or what the call needs is missing. The call is repeated with growing delays.",
		"The message is the driver's, or names what is missing. Do not remove the finalizer by hand while the volume may be attached."),
	VolumeHeldByAttacher: silent("The PersistentVolume is being deleted, and keeps the attacher's finalizer while a VolumeAttachment names it.",
		"kubectl get volumeattachment. It goes on by itself when the last one for this volume is gone."),
	VolumeFreedByAttacher: silent("No VolumeAttachment names the PersistentVolume that is being deleted; the attacher's finalizer is removed.",
		"Nothing to do."),
}
