package verdict

// TopologyUnknown is the reason of a claim for which no node has topology labels of the driver.
const TopologyUnknown Reason = "TopologyUnknown"

var topologyInfos = map[Reason]Info{
	TopologyUnknown: failedClaim("The driver announces topology, and no node has topology labels of this driver, so no volume that a pod can reach can be requested.",
		"kubectl get csinode -o yaml: is the driver registered on the nodes, and do the Nodes have the labels of its topologyKeys?"),
}
