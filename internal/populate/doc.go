// Package populate fills the volumes of claims whose source is a custom resource: the controller of a
// populator. It makes the volume for a prime claim (PVC') in the namespace of the populator, has a pod write
// the data, and gives the volume to the user's claim (VP-1 to VP-17). internal/populate/rules decides, and
// says in which order and why no crash leaks an object.
//
// A populator of one's own is a [Populator], which says how an object becomes the arguments of the pod, and
// one function that writes the data in the pod, see internal/populate/pod. internal/populate/http is one.
//
// The package knows no kind of source, and reads no secret.
//
// # Permissions
//
//	persistentvolumeclaims get, list, watch, patch; create and delete in the namespace of the populator
//	persistentvolumes get, list, watch, patch; storageclasses and the sources get, list, watch
//	pods get, list, watch, create, delete in the namespace of the populator; events create, patch
//	referencegrants list, with sources in other namespaces
package populate
