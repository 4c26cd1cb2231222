package verdict

// Reasons of the publisher of storage capacities.
const (
	CapacityPublished  Reason = "CapacityPublished"
	CapacityNotPlanned Reason = "CapacityNotPlanned"
	CapacityFailed     Reason = "CapacityFailed"
	CapacityUnknown    Reason = "CapacityUnknown"
	CapacityInvalid    Reason = "CapacityInvalid"
)

var capacityInfos = map[Reason]Info{
	CapacityPublished: silent("The CSIStorageCapacity object has the capacity that the driver returned.",
		"kubectl get csistoragecapacities -A shows what the scheduler sees."),
	CapacityNotPlanned: silent("The class or the last node of the segment is gone, so its CSIStorageCapacity object is deleted.",
		"Nothing to do."),
	CapacityFailed: silent("GetCapacity failed for a segment. The last known capacity stays published, and the call is retried.",
		"The log has the driver's message. purser_capacity_failing counts such segments, purser_capacity_oldest_answer_seconds is the age of the data."),
	CapacityUnknown: {
		Warning, string(CapacityUnknown),
		"GetCapacity has failed for a segment for so long that the published value was removed. The scheduler selects no node of the segment for new volumes of the class.",
		"The message has the driver's message. Is the driver's instance for these nodes running? --capacity-max-age sets how long an old value stays published.",
	},
	CapacityInvalid: {
		Warning, string(CapacityInvalid), "The driver answered GetCapacity with a negative number.",
		"This is a fault of the driver. The last valid answer stays published.",
	},
}
