// Package reap lets one central instance reclaim the volumes of nodes that were removed from the
// cluster, which the instances of --node-deployment cannot do any more (N-12).
//
// It decides which volumes these are, again and again; controllers/reclaim, which sees no other
// volumes, does the rest: the claim is gone, the policy is Delete, no other PersistentVolume needs
// the volume. Right before the volume is deleted the API server is asked for the nodes once more.
package reap
