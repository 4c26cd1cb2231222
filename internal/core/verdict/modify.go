package verdict

// Reasons of the modification of volumes by a VolumeAttributesClass.
const (
	ModifyNotRequested Reason = "ModifyNotRequested"
	ModifyStarted      Reason = "ModifyStarted"
	ModifyDone         Reason = "ModifyDone"
	ModifyCanceled     Reason = "ModifyCanceled"
	ModifyClassMissing Reason = "ModifyClassMissing"
	ModifyClassNotOurs Reason = "ModifyClassNotOurs"
	ModifyDriverLacks  Reason = "ModifyDriverLacks"
	ModifyFailed       Reason = "ModifyFailed"
	ModifyRefused      Reason = "ModifyRefused"
	ModifyAwaitsRetry  Reason = "ModifyAwaitsRetry"
)

// The event reasons of external-resizer about modifications (RZ-E2).
const (
	eventVolumeModify           = "VolumeModify"
	eventVolumeModifyFailed     = "VolumeModifyFailed"
	eventVolumeModifySuccessful = "VolumeModifySuccessful"
	eventVolumeModifyCanceled   = "VolumeModifyCanceled"
)

var modifyInfos = map[Reason]Info{
	ModifyNotRequested: silent("The volume has the VolumeAttributesClass that the claim names, or another driver serves it.",
		"Nothing to do."),
	ModifyStarted: {
		Normal, eventVolumeModify, "The driver is being asked to apply a VolumeAttributesClass to the volume.",
		"If this stays the last event for long, the driver has not answered yet: look at its log.",
	},
	ModifyDone: {
		Normal, eventVolumeModifySuccessful, "The volume has the VolumeAttributesClass that the claim names.",
		"Nothing to do.",
	},
	ModifyCanceled: {
		Normal, eventVolumeModifyCanceled, "The claim names no VolumeAttributesClass any more, and the driver had refused the one that it named.",
		"Nothing to do.",
	},
	ModifyClassMissing: {
		Warning, eventVolumeModifyFailed, "The VolumeAttributesClass that the claim names does not exist.",
		"Create the class, or name one that exists. The modification continues by itself when the class is created.",
	},
	ModifyClassNotOurs: {
		Warning, eventVolumeModifyFailed, "The VolumeAttributesClass is for another driver than the volume's.",
		"Name a class whose driverName is the volume's driver.",
	},
	ModifyDriverLacks: {
		Warning, eventVolumeModifyFailed, "The CSI driver cannot modify volumes.",
		"Use a driver with the capability MODIFY_VOLUME. If an upgrade adds it, the call is made at once.",
	},
	ModifyFailed: {
		Warning, eventVolumeModifyFailed, "The driver failed to apply the VolumeAttributesClass. It is retried.",
		"The message has the driver's message. After an uncertain error the same class is tried until the driver gives a final response.",
	},
	ModifyRefused: {
		Warning, eventVolumeModifyFailed, "The driver refuses the VolumeAttributesClass with a final error.",
		"Name another VolumeAttributesClass; it is tried at once.",
	},
	ModifyAwaitsRetry: silent("The last attempt to apply the VolumeAttributesClass failed; the next one is due later. Another class is tried at once.",
		"Read the VolumeModifyFailed event of the claim."),
}
