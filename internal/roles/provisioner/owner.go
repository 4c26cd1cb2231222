package provisioner

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// findOwner returns the owner of the capacities: the pod, or a controller so many levels above it
// (F-21). A negative level is for no owner. The owner itself is not read, only what it owns, since
// upstream's role allows pods and replicasets (RB-11).
func findOwner(
	ctx context.Context, from client.Reader, namespace, pod string, level int,
) (*metav1.OwnerReference, error) {
	if level < 0 {
		return nil, nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod, Controller: new(true)}
	for above := 0; ; above++ {
		if above > 0 && above == level {
			return &owner, nil // the reference has its uid
		}
		if err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: owner.Name}, object); err != nil {
			return nil, fmt.Errorf(
				"--capacity-ownerref-level=%d: read %s %s/%s: %w", level, owner.Kind, namespace, owner.Name, err,
			)
		}
		if level == 0 {
			owner.UID = object.UID
			return &owner, nil
		}
		controller := metav1.GetControllerOf(object)
		if controller == nil {
			return nil, fmt.Errorf(
				"--capacity-ownerref-level=%d: %s %s/%s: %w", level, owner.Kind, namespace, owner.Name, errNoOwner,
			)
		}
		owner = metav1.OwnerReference{
			APIVersion: controller.APIVersion, Kind: controller.Kind, Name: controller.Name, UID: controller.UID,
			Controller: new(true),
		}
		object = &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	}
}
