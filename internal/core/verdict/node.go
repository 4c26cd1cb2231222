package verdict

// Reasons of an instance that works for the volumes of one node.
const (
	ClaimElsewhere Reason = "ClaimElsewhere"
	ClaimContested Reason = "ClaimContested"
	ClaimOwned     Reason = "ClaimOwned"
)

var nodeInfos = map[Reason]Info{
	ClaimElsewhere: silent("The claim is for another node, so the instance there creates its volume.",
		"kubectl get pvc NAME -o yaml: the annotation volume.kubernetes.io/selected-node names the node. Does an instance run there?"),
	ClaimContested: silent("No node was selected for the claim. The instance of each node that can have the volume waits a different time, and the first one takes the claim.",
		"Nothing to do. The delays are --node-deployment-base-delay and --node-deployment-max-delay."),
	ClaimOwned: silent("This node has taken a claim for which no node was selected.",
		"Nothing to do."),
}
