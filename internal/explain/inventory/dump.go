package inventory

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// annLastApplied is kubectl's copy of the whole object, which may contain fields that the dump
// leaves out.
const annLastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Content returns an object as a dump has it: with its kind, of its managed fields who wrote which
// part when, and without what may hold secret values. Of a secret only the name is left.
func Content(o client.Object) (map[string]any, error) {
	if secret, partial := o.(*metav1.PartialObjectMetadata); partial {
		o = nameOf(secret)
	}
	o = shallow(o)
	written := writers(o.GetManagedFields())
	o.SetManagedFields(nil)
	if _, has := o.GetAnnotations()[annLastApplied]; has {
		annotations := maps.Clone(o.GetAnnotations())
		delete(annotations, annLastApplied)
		o.SetAnnotations(annotations)
	}
	if spec := podSpec(o); spec != nil {
		spec.InitContainers, spec.Containers = slices.Clone(spec.InitContainers), slices.Clone(spec.Containers)
		trimPod(spec)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("%T %s: %w", o, o.GetName(), err)
	}
	kind, err := apiutil.GVKForObject(o, Scheme())
	if err != nil {
		return nil, fmt.Errorf("%T %s: %w", o, o.GetName(), err)
	}
	content["apiVersion"], content["kind"] = kind.ToAPIVersionAndKind()
	if metadata, is := content["metadata"].(map[string]any); is && len(written) > 0 {
		metadata["managedFields"] = written
	}
	return content, nil
}

// shallow returns a copy of an object whose fields can be set. What they point to is that of the object.
func shallow(o client.Object) client.Object {
	if content, is := o.(*unstructured.Unstructured); is {
		return content.DeepCopy() // its fields are entries of a map
	}
	from := reflect.ValueOf(o).Elem()
	to := reflect.New(from.Type())
	to.Elem().Set(from)
	return to.Interface().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
}

// nameOf keeps of a secret what names it: values may be in its annotations and labels too.
func nameOf(secret *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	name := &metav1.PartialObjectMetadata{TypeMeta: secret.TypeMeta}
	name.Namespace, name.Name, name.UID = secret.Namespace, secret.Name, secret.UID
	name.ResourceVersion, name.CreationTimestamp = secret.ResourceVersion, secret.CreationTimestamp
	name.DeletionTimestamp = secret.DeletionTimestamp
	return name
}

// writers returns of managed fields which manager wrote the object or a subresource, and when, as the
// converter does. Each version has some, and the converter looks at each field of each.
func writers(entries []metav1.ManagedFieldsEntry) (all []any) {
	for _, entry := range entries {
		if entry.Time == nil {
			continue
		}
		writer := map[string]any{"time": entry.Time.ToUnstructured()}
		if entry.Manager != "" {
			writer["manager"] = entry.Manager
		}
		if entry.Operation != "" {
			writer["operation"] = string(entry.Operation)
		}
		if entry.Subresource != "" {
			writer["subresource"] = entry.Subresource
		}
		all = append(all, writer)
	}
	return all
}

// podSpec returns the pod spec of a pod or of the template of a workload; nil for other objects.
func podSpec(o client.Object) *corev1.PodSpec {
	switch o := o.(type) {
	case *corev1.Pod:
		return &o.Spec
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec
	case *batchv1.Job:
		return &o.Spec.Template.Spec
	}
	return nil
}

// trimPod keeps the fields that volumes and the scheduler depend on. It drops commands, arguments
// and environment.
func trimPod(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i, c := range list {
			list[i] = corev1.Container{
				Name:          c.Name,
				Image:         c.Image,
				VolumeMounts:  c.VolumeMounts,
				VolumeDevices: c.VolumeDevices,
				Resources:     c.Resources,
				Ports:         hostPorts(c.Ports),
				RestartPolicy: c.RestartPolicy,
			}
		}
	}
	spec.EphemeralContainers = nil
}

// hostPorts are the ports of the node that a container asks for. The scheduler counts no others.
func hostPorts(ports []corev1.ContainerPort) (all []corev1.ContainerPort) {
	for _, port := range ports {
		if port.HostPort > 0 {
			all = append(all, corev1.ContainerPort{
				ContainerPort: port.ContainerPort, HostPort: port.HostPort, HostIP: port.HostIP,
				Protocol: port.Protocol,
			})
		}
	}
	return all
}

// TellsOfAll reports whether an object is needed in the dump of any namespace: a Lease, and the
// pods and workloads that run components.
func TellsOfAll(o client.Object) bool {
	if spec := podSpec(o); spec != nil {
		return explain.HasSidecar(spec)
	}
	_, ok := o.(*coordinationv1.Lease)
	return ok
}

// IsOldRevision reports whether an object is a ReplicaSet that its Deployment has scaled to 0.
// Nothing follows from it.
func IsOldRevision(o client.Object) bool {
	rs, ok := o.(*appsv1.ReplicaSet)
	return ok && rs.Spec.Replicas != nil && *rs.Spec.Replicas == 0 && len(rs.OwnerReferences) > 0
}

// UnreadAnnotations notes on a dump which kinds could not be read.
func UnreadAnnotations(unread map[explain.Kind]string) map[string]string {
	out := map[string]string{}
	for _, k := range kinds {
		if cause, ok := unread[k.name]; ok {
			out[AnnUnread+k.resource.Resource] = cause
		}
	}
	return out
}
