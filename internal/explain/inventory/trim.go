package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// trim is the transform of the informers: it removes what a dump leaves out, in which most of the
// memory would go, and what may hold secret values. Of managed fields it keeps a hash, by which a
// write of the same fields is seen. An object may be trimmed more than once.
func (p *pool) trim(in any) (any, error) {
	o, is := in.(client.Object)
	if !is {
		return in, nil // the end of an object that the watch has missed
	}
	if annotations := o.GetAnnotations(); annotations[annLastApplied] != "" {
		delete(annotations, annLastApplied)
		o.SetAnnotations(annotations)
	}
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata: // a secret
		o.ObjectMeta = metav1.ObjectMeta{
			Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
			CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
		}
		return o, nil
	case *unstructured.Unstructured:
		o.SetManagedFields(nil)
		return o, nil
	}
	if spec := podSpec(o); spec != nil {
		trimPod(spec)
	}
	p.share(o)
	return o, nil
}
