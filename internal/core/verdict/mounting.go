package verdict

// Reasons of the node agent, about volumes and about pods.
const (
	MountClaimAwaited  Reason = "MountClaimAwaited"
	MountUnfit         Reason = "MountUnfit"
	MountDriverAwaited Reason = "MountDriverAwaited"
	MountTaken         Reason = "MountTaken"
	MountAttachAwaited Reason = "MountAttachAwaited"
	MountPodSeen       Reason = "MountPodSeen"
	Publishing         Reason = "Publishing"
	Unpublishing       Reason = "Unpublishing"
	Unstaging          Reason = "Unstaging"
	VolumePublished    Reason = "VolumePublished"
	VolumeUnmounted    Reason = "VolumeUnmounted"
	StageFailed        Reason = "StageFailed"
	PublishFailed      Reason = "PublishFailed"
	UnpublishFailed    Reason = "UnpublishFailed"
	UnstageFailed      Reason = "UnstageFailed"
	NodeExpandFailed   Reason = "NodeExpandFailed"

	PodUnmounting       Reason = "PodUnmounting"
	PodUnmounted        Reason = "PodUnmounted"
	PodFinished         Reason = "PodFinished"
	PodMounting         Reason = "PodMounting"
	PodMounted          Reason = "PodMounted"
	PodContainersNotRun Reason = "ContainersNotRun"
)

// The reasons are silent, because the agent emits its events as actions: one step concerns several
// pods.
var mountingInfos = map[Reason]Info{
	MountClaimAwaited: silent("A claim of the pod does not exist, is not bound yet, or is being deleted, so its volume is not known.",
		"kubectl get pvc; purser explain says why a claim is not bound. The pod then continues by itself."),
	MountUnfit: silent("The pod, the PersistentVolume or the CSIDriver has a value with which the volume cannot be mounted: the message names the field.",
		"Correct the pod, the PersistentVolume or the CSIDriver that the message names."),
	MountDriverAwaited: silent("The driver of the volume has not registered on the node.",
		"Does the driver's node plugin run on the node, and is its registration socket in plugins_registry? kubectl get csinode NODE lists the drivers."),
	MountTaken: silent("The volume has the access mode ReadWriteOncePod and another pod on the node uses it, or its PersistentVolume "+
		"was created again with another handle while a pod has the previous volume.",
		"Delete the pod that uses the volume; create a claim for each pod."),
	MountAttachAwaited: silent("The volume is not attached to the node yet. The node waits for the attach-detach controller and the attacher.",
		"kubectl get volumeattachment; kubectl get node NODE -o jsonpath={.status.volumesAttached}. Is an attach-detach controller running, and the driver's csi-attacher?"),
	MountPodSeen: silent("A live read found the pod, which the first list did not show, so its volumes stay.",
		"Nothing to do."),
	Publishing: silent("The driver is being asked to stage and publish the volume.",
		"If this takes long, look at the driver's log."),
	Unpublishing: silent("The driver is being asked to unpublish the volume.",
		"If this takes long, look at the driver's log: is the volume still in use on the node?"),
	Unstaging: silent("The driver is being asked to unstage the volume.",
		"If this takes long, look at the driver's log."),
	VolumePublished: silent("The volume is published to every pod on the node that uses it.",
		"Nothing to do."),
	VolumeUnmounted: silent("No pod on the node uses the volume, and no mount or file of it is left there.",
		"Nothing to do."),
	StageFailed: silent("NodeStageVolume failed, or could not be called. It is retried.",
		"The event FailedMount or FailedMapVolume of the pod has the driver's message."),
	PublishFailed: silent("NodePublishVolume failed, or could not be called, or the group of the files could not be set. It is retried.",
		"The event FailedMount or FailedMapVolume of the pod has the driver's message."),
	UnpublishFailed: silent("NodeUnpublishVolume failed. It is retried, and nothing is removed before it succeeds.",
		"The agent's log has the driver's message. Is a process still using the volume?"),
	UnstageFailed: silent("NodeUnstageVolume failed. It is retried, and nothing is removed before it succeeds.",
		"The agent's log has the driver's message. Is the staging path mounted anywhere else?"),
	NodeExpandFailed: silent("NodeExpandVolume failed. The pod keeps the volume with its old size.",
		"The event VolumeResizeFailed of the pod has the driver's message. After InvalidArgument, OutOfRange or NotFound it is not tried again until the claim asks for another size."),
	PodUnmounting: silent("The pod ends and its volumes are being unpublished.",
		"If this takes long, purser explain pod NAME; the agent's log names the volume."),
	PodUnmounted: silent("No volume of the pod is published on the node.",
		"Nothing to do."),
	PodFinished: silent("The pod is being deleted and its volumes are unpublished, so the agent removes the object.",
		"Nothing to do."),
	PodMounting: silent("Volumes of the pod are not published yet; the condition purser/VolumesPublished says which and why.",
		"kubectl describe pod NAME."),
	PodMounted: silent("All volumes of the pod are published on the node.",
		"Nothing to do."),
	PodContainersNotRun: silent("The node has no container runtime: purser node publishes volumes and runs no containers.",
		"Use purser up --kubelet, or a node with a kubelet, for pods that are to run."),
}
