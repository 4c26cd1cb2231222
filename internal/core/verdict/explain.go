package verdict

// Reasons that only `purser explain` gives. They are about other components.
const (
	ExplainUnread          Reason = "ExplainUnread"
	BinderSilent           Reason = "BinderSilent"
	ProvisionerSilent      Reason = "ProvisionerSilent"
	DriverSlow             Reason = "DriverSlow"
	ExpansionRefused       Reason = "ExpansionRefused"
	ExpansionOnNode        Reason = "ExpansionOnNode"
	ExpansionFailed        Reason = "ExpansionFailed"
	ResizerSilent          Reason = "ResizerSilent"
	ModificationAwaited    Reason = "ModificationAwaited"
	ModificationRefused    Reason = "ModificationRefused"
	AttributesClassMissing Reason = "AttributesClassMissing"
	ProtectionSilent       Reason = "ProtectionSilent"
	FinalizerHeld          Reason = "FinalizerHeld"
	PodClaimMissing        Reason = "PodClaimMissing"
	PodClaimDeleting       Reason = "PodClaimDeleting"
	PodStopping            Reason = "PodStopping"
	UnmountFailed          Reason = "UnmountFailed"
	NodeNotReady           Reason = "NodeNotReady"
	SchedulerSilent        Reason = "SchedulerSilent"
	PodUnschedulable       Reason = "PodUnschedulable"
	VolumeUnreachable      Reason = "VolumeUnreachable"
	ClaimUsedByOtherPod    Reason = "ClaimUsedByOtherPod"
	CapacityMissing        Reason = "CapacityMissing"
	AttachLimitReached     Reason = "AttachLimitReached"
	DriverNotRegistered    Reason = "DriverNotRegistered"
	MultiAttach            Reason = "MultiAttach"
	MultiAttachNodeDown    Reason = "MultiAttachNodeDown"
	AttachNotRequested     Reason = "AttachNotRequested"
	AttachNotListed        Reason = "AttachNotListed"
	AttachFailed           Reason = "AttachFailed"
	AttachUnderWay         Reason = "AttachUnderWay"
	AttacherSilent         Reason = "AttacherSilent"
	AttachmentOrphaned     Reason = "AttachmentOrphaned"
	DetachAwaitsUnmount    Reason = "DetachAwaitsUnmount"
	NodeSecretMissing      Reason = "NodeSecretMissing"
	KubeletSilent          Reason = "KubeletSilent"
	MountFailed            Reason = "MountFailed"
	DefaultClassShadowed   Reason = "DefaultClassShadowed"
	SnapshotSourceMissing  Reason = "SnapshotSourceMissing"
	SnapshotClassMissing   Reason = "SnapshotClassMissing"
	SnapshotFailed         Reason = "SnapshotFailed"
	SnapshotterSilent      Reason = "SnapshotterSilent"
	SnapshotUnderWay       Reason = "SnapshotUnderWay"
	SnapshotStillUsed      Reason = "SnapshotStillUsed"
	QuotaExceeded          Reason = "QuotaExceeded"
	NamespaceTerminating   Reason = "NamespaceTerminating"
)

// explainInfos describe them. None causes an event: `purser explain` prints them.
var explainInfos = map[Reason]Info{
	ExplainUnread: silent("The answer depends on a kind of object that was not read.",
		"Run purser explain with the permissions that purser dump --rbac prints, or make the dump again with that kind."),
	BinderSilent: silent("The PV controller has something to do for a claim or volume and has not done it.",
		"Is kube-controller-manager, or purser controllers, running and is its lease renewed?"),
	ProvisionerSilent: silent("The provisioner of the driver shows no sign of life: its lease is absent or not renewed, and it has written no event.",
		"Is the driver installed under the name that the StorageClass has, and does its controller pod run?"),
	DriverSlow: silent("The provisioner is alive, and the driver has not answered for minutes.",
		"Read the log of the driver's controller pod."),
	ExpansionRefused: silent("The volume cannot get the size that the claim asks for: the driver refuses it with a final error, or no component can expand this volume.",
		"Ask for a smaller size that is still more than the volume has."),
	ExpansionOnNode: silent("The volume is larger and its filesystem is not yet: it is expanded on the node where a pod uses it.",
		"Start a pod that uses the claim; if one runs, read the kubelet's events about it."),
	ExpansionFailed: silent("The driver failed to expand the volume. It is retried.",
		"Read the VolumeResizeFailed event of the claim and the driver's log."),
	ResizerSilent: silent("Nothing shows that an external-resizer for the driver runs, so the volume is not expanded.",
		"Does the driver's controller pod have a csi-resizer container?"),
	ModificationAwaited: silent("The volume does not have the attributes of the VolumeAttributesClass that the claim names yet.",
		"Read the claim's status.modifyVolumeStatus and its VolumeModifyFailed events."),
	ModificationRefused: silent("The driver refuses the attributes of the VolumeAttributesClass for this volume.",
		"Name another class, or go back to the previous one."),
	AttributesClassMissing: silent("The VolumeAttributesClass that the claim names does not exist.",
		"kubectl get volumeattributesclass. Create it, or name another one."),
	ProtectionSilent: silent("Nothing uses the object any more, and its protection finalizer has not been removed.",
		"Is kube-controller-manager, or purser controllers, running?"),
	FinalizerHeld: silent("The object is being deleted and waits for the program that holds the finalizer which the answer names.",
		"See whether that program runs. Removing a finalizer by hand skips what it has to clean up."),
	PodClaimMissing: silent("The pod names a claim that does not exist in its namespace.",
		"Create the claim, or correct the name."),
	PodClaimDeleting: silent("The pod names a claim that is being deleted, and a new pod cannot use it.",
		"Wait until the claim is removed, and create it again; with the reclaim policy Delete its data is deleted."),
	PodStopping: silent("The pod is being deleted and its node has not reported the end of its containers.",
		"Read the kubelet's log on the node."),
	UnmountFailed: silent("The kubelet cannot unmount a volume of a pod that is being deleted.",
		"Read the FailedUnMount event and the driver's log on the node."),
	NodeNotReady: silent("The node's kubelet does not report, so pods on it stay Terminating and volumes are not detached.",
		"Bring the node back, or, if the machine is certainly off, add the taint out-of-service."),
	SchedulerSilent: silent("There is no event or condition of a scheduler about the pod.",
		"Is the scheduler that the pod names running, and has the pod scheduling gates?"),
	PodUnschedulable: silent("The scheduler finds no node for the pod, and its volumes are not the cause.",
		"kubectl describe pod NAME has the scheduler's message."),
	VolumeUnreachable: silent("A volume of the pod is reachable only from nodes that do not exist or that the pod may not use.",
		"Compare the volume's node affinity with the labels of the nodes and with the pod's own selection."),
	ClaimUsedByOtherPod: silent("The claim has the access mode ReadWriteOncePod and another pod uses it.",
		"Stop the other pod."),
	CapacityMissing: silent("The driver publishes its capacity, and none of the CSIStorageCapacity objects of the class has room for the claim.",
		"kubectl get csistoragecapacities -A. Free storage, or ask for less."),
	AttachLimitReached: silent("The node, or each node that the pod may use, has reached its limit of volumes of the driver.",
		"Compare allocatable.count of the CSINode with the volumes in use."),
	DriverNotRegistered: silent("The driver is not registered on the pod's node, so the kubelet cannot mount its volumes.",
		"Does the driver's node pod run there?"),
	MultiAttach: silent("The volume may be on one node at a time and is attached to another one.",
		"Stop the pods that use it on the other node."),
	MultiAttachNodeDown: silent("The volume may be on one node at a time and is attached to a node that does not report.",
		"Bring the node back, or, if the machine is certainly off, add the taint out-of-service."),
	AttachNotRequested: silent("A pod on a node needs the volume, and there is no VolumeAttachment for it.",
		"Does the attach-detach controller of kube-controller-manager run?"),
	AttachNotListed: silent("The volume is attached, and the node's status does not list it yet, which its kubelet waits for.",
		"Does the attach-detach controller run, and may it write the status of nodes?"),
	AttachFailed: silent("The driver failed to attach or detach the volume. It is retried.",
		"kubectl describe volumeattachment NAME has the driver's message."),
	AttachUnderWay: silent("The driver is attaching or detaching the volume.",
		"Nothing to do unless it takes minutes."),
	AttacherSilent: silent("Nothing shows that an external-attacher for the driver runs, so the volume is not attached or detached.",
		"Does the driver's controller pod have a csi-attacher container, or should its CSIDriver say attachRequired: false?"),
	AttachmentOrphaned: silent("The volume stays attached to a node, or for a PersistentVolume, that does not exist any more.",
		"Detach the volume on the backend before anything is removed by hand."),
	DetachAwaitsUnmount: silent("No pod on the node uses the volume, and its kubelet still reports it in use; it is detached after that.",
		"If it stays so, read the kubelet's log on the node: unmounting fails."),
	NodeSecretMissing: silent("The PersistentVolume names a secret for calls to the node plugin, and the secret does not exist.",
		"Create the secret as the driver documents it."),
	KubeletSilent: silent("The pod has a node, no container has started, and there is no event about its volumes.",
		"kubectl describe pod NAME; the cause may be the image or the network."),
	MountFailed: silent("The kubelet failed to mount a volume of the pod. It is retried.",
		"Read the FailedMount event and the log of the driver's node pod."),
	DefaultClassShadowed: silent("Another StorageClass is marked as the default as well and is newer, so claims get that one.",
		"Remove the annotation is-default-class from one of the two."),
	SnapshotSourceMissing: silent("The source of the snapshot, or its content, does not exist or is not ready.",
		"The answer names it."),
	SnapshotClassMissing: silent("The snapshot has no VolumeSnapshotClass: the one that it names does not exist, or there is no default for its driver.",
		"kubectl get volumesnapshotclass."),
	SnapshotFailed: silent("The snapshot could not be taken. It is retried.",
		"Read status.error of the VolumeSnapshot and of its content."),
	SnapshotterSilent: silent("The snapshot-controller, or the csi-snapshotter of the driver, shows no sign of life.",
		"kubectl get pods -A | grep snapshot."),
	SnapshotUnderWay: silent("The driver is working on the snapshot.",
		"Nothing to do unless it takes longer than the driver's snapshots usually do."),
	SnapshotStillUsed: silent("The snapshot is being deleted and a claim is being restored from it.",
		"It is deleted when the restore has ended."),
	QuotaExceeded: silent("A ResourceQuota of the namespace does not allow the claim that the pod or its controller asks for.",
		"kubectl describe resourcequota -n NAMESPACE."),
	NamespaceTerminating: silent("The namespace is being deleted and waits for objects in it.",
		"Run purser explain -n NAMESPACE for the objects that block it."),
}
