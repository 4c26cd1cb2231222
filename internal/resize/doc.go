// Package resize changes volumes that are bound. [Controller] expands them through one CSI driver;
// [AttributesController] applies the VolumeAttributesClass of a claim through it; [ExpansionController]
// takes the place of the expand controller of kube-controller-manager: it emits the event that an
// external resizer has to expand the volume, and writes the annotation with the resizer of a migrated
// volume. internal/resize/rules and the packages below it decide.
//
// [Store] has the writes of bound claims and their volumes: the status of a claim is written with a
// resourceVersion precondition. Reads include this process's own writes ([kube.Overlay]).
//
// It must not decide which size or class is sent to the driver, nor what an answer means.
//
// # Permissions of the expansion controller
//
//	persistentvolumeclaims get, list, watch; persistentvolumeclaims/status patch; persistentvolumes get, list, watch;
//	events create, patch
package resize
