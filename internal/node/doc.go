// Package node mounts the volumes of pods on one node: the effects around internal/node/rules. It keeps
// the record of what is staged and published, finds it again on disk after a restart, registers
// drivers as a kubelet does, reports volumes in use, and ends pods on nodes without a kubelet.
//
// It must not decide which step comes next, nor what an answer of the driver means.
//
// # Permissions
//
// pods get, list, watch, delete; pods/status patch; persistentvolumeclaims, persistentvolumes,
// volumeattachments, csidrivers get, list, watch; persistentvolumeclaims/status patch; nodes get,
// list, watch, patch; nodes/status patch; csinodes get, list, watch, create, update, delete; secrets
// get; serviceaccounts/token create; events create, patch
package node
