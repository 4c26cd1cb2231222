package outcome

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// dropped are fields of other controllers, or that differ from run to run.
var dropped = map[string]bool{
	"apiVersion": true, "kind": true,
	"metadata.name": true, "metadata.namespace": true, "metadata.uid": true, "metadata.resourceVersion": true, "metadata.generation": true,
	"metadata.creationTimestamp": true, "metadata.managedFields": true, "metadata.deletionGracePeriodSeconds": true,
	"status.lastPhaseTransitionTime": true,
}

// hidden are fields of which only the presence is compared.
var hidden = map[string]bool{"metadata.deletionTimestamp": true, "spec.claimRef.resourceVersion": true}

// flatten is the object as paths and values.
func flatten(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	walk(out, "", o.Object)
	return out
}

func walk(out map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if next := join(path, key); !dropped[next] && !strings.HasSuffix(next, "Time") {
				walk(out, next, inner)
			}
		}
	case []any:
		for i, inner := range value {
			walk(out, element(path, i, inner), inner)
		}
	case nil:
	default:
		if hidden[path] {
			value = "set"
		}
		out[path] = fmt.Sprint(value)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// element names an element of a list by its content where the order of the list has no meaning.
func element(path string, i int, value any) string {
	switch path {
	case "metadata.finalizers":
		return fmt.Sprintf("%s[%v]", path, value)
	case "status.conditions":
		if condition, ok := value.(map[string]any); ok {
			return fmt.Sprintf("%s[%v]", path, condition["type"])
		}
	}
	return fmt.Sprintf("%s[%d]", path, i)
}
