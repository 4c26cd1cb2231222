package record

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of object that is watched.
type Kind struct {
	Name       string // the short name
	Resource   schema.GroupVersionResource
	Version    schema.GroupVersionKind
	Namespaced bool
}

func core(name, resource, kind string, namespaced bool) Kind {
	return Kind{
		name,
		schema.GroupVersionResource{Version: "v1", Resource: resource},
		schema.GroupVersionKind{Version: "v1", Kind: kind},
		namespaced,
	}
}

func storage(name, resource, kind string) Kind {
	const group = "storage.k8s.io"
	return Kind{
		name,
		schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource},
		schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind},
		false,
	}
}

// The kinds.
var (
	Claims     = core("pvc", "persistentvolumeclaims", "PersistentVolumeClaim", true)
	Volumes    = core("pv", "persistentvolumes", "PersistentVolume", false)
	Pods       = core("pod", "pods", "Pod", true)
	Classes    = storage("class", "storageclasses", "StorageClass")
	Attributes = storage("vac", "volumeattributesclasses", "VolumeAttributesClass")
	Secrets    = core("secret", "secrets", "Secret", true)
	Events     = core("event", "events", "Event", true)
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Claims, Volumes, Pods, Classes, Attributes, Secrets, Events} }

// KindOf returns the kind with a short name.
func KindOf(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Shared is the name of an object without a namespace, for a scenario.
func Shared(scenario, name string) string { return scenario + "." + name }

// scenarioOf returns the scenario of an object: from its namespace, or from the first part of its
// name.
func scenarioOf(k Kind, o *unstructured.Unstructured) string {
	switch {
	case k == Events:
		involved, _, _ := unstructured.NestedStringMap(o.Object, "involvedObject")
		if ns := involved["namespace"]; ns != "" {
			return ns
		}
		return prefix(involved["name"])
	case k.Namespaced:
		return o.GetNamespace()
	}
	return prefix(o.GetName())
}

func prefix(name string) string {
	before, _, _ := strings.Cut(name, ".")
	return before
}
