package verdict

// TopologyUnknown is the reason of a claim for which no node says where a volume can be.
const TopologyUnknown Reason = "TopologyUnknown"

var topologyInfos = map[Reason]Info{
	TopologyUnknown: failedClaim("The driver announces topology, and no node says where it is for this driver, so the driver cannot be asked for a volume that a pod can reach.",
		"kubectl get csinode -o yaml: is the driver registered on the nodes, and do the Nodes have the labels of its topologyKeys?"),
}
