// Package reap lets one central instance reclaim the volumes of nodes that were removed from the
// cluster, which the instances of --node-deployment cannot do any more (N-12).
//
// It decides periodically which volumes these are. controllers/reclaim, which gets no other
// volumes, checks the rest: the claim is gone, the policy is Delete, no other PersistentVolume
// needs the volume. Right before a volume is deleted, the nodes are read live.
package reap
