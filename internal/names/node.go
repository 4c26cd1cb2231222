package names

// Annotations, labels and conditions of a node's volumes (5.12).
const (
	AnnNodeID = "csi.volume.kubernetes.io/nodeid" // on Nodes: JSON, driver to the driver's id of the node
	// ConditionVolumesPublished is ours, on pods of a node without a kubelet.
	ConditionVolumesPublished = "purser/VolumesPublished"
)
