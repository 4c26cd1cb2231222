package inventory

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/purser-csi/purser/internal/core/explain"
)

// annLastApplied is kubectl's copy of the whole object, which may contain fields that the dump
// leaves out.
const annLastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Content returns an object as a dump has it: with its kind, without managed fields, and without
// what may hold secret values.
func Content(o client.Object) (map[string]any, error) {
	o = o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	o.SetManagedFields(nil)
	if annotations := o.GetAnnotations(); annotations != nil {
		delete(annotations, annLastApplied)
		o.SetAnnotations(annotations)
	}
	if pod, ok := o.(*corev1.Pod); ok {
		trimPod(pod)
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
	return content, nil
}

// trimPod keeps the fields that volumes depend on, and drops commands, arguments and environment.
func trimPod(pod *corev1.Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i, c := range list {
			list[i] = corev1.Container{
				Name:          c.Name,
				Image:         c.Image,
				VolumeMounts:  c.VolumeMounts,
				VolumeDevices: c.VolumeDevices,
			}
		}
	}
	pod.Spec.EphemeralContainers = nil
}

// IsLease reports whether the object is a Lease: those of all namespaces tell who runs.
func IsLease(o client.Object) bool {
	_, ok := o.(*coordinationv1.Lease)
	return ok
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

// publicNames are namespaces of common software. They do not identify the owner of a cluster.
var publicNames = []string{
	"default",
	"kube-system",
	"kube-public",
	"kube-node-lease",
	"kube-controller-manager",
	"kube-scheduler",
}

// madeOfUID is the prefix of names of VolumeSnapshotContents that say nothing but the uid of their
// VolumeSnapshot, by which they are found.
const madeOfUID = "snapcontent-"

// HideNames replaces the names of claims, volumes, pods, nodes, namespaces and secrets in all
// texts, each by a word that stands for it everywhere. Names of drivers, classes and leases stay: a
// cause cannot be found without them.
func HideNames(items []map[string]any) []map[string]any {
	words := map[string]string{}
	counts := map[string]int{}
	note := func(kind, name string) {
		if name == "" || words[name] != "" || slices.Contains(publicNames, name) || strings.HasPrefix(name, madeOfUID) {
			return
		}
		counts[kind]++
		words[name] = fmt.Sprintf("%s-%d", strings.ToLower(kind), counts[kind])
	}
	for _, item := range items {
		kind, _ := item["kind"].(string)
		metadata, _ := item["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		namespace, _ := metadata["namespace"].(string)
		note("Namespace", namespace)
		switch kind {
		case "PersistentVolumeClaim",
			"PersistentVolume",
			"Pod",
			"Node",
			"Namespace",
			"Secret",
			"VolumeSnapshot",
			"VolumeSnapshotContent":
			note(kind, name)
		}
	}
	hide := func(text string) string { return replaceWords(text, words) }
	for i := range items {
		items[i], _ = mapStrings(items[i], hide).(map[string]any)
	}
	return items
}

// mapStrings applies a function to every string in a value, keys of maps included.
func mapStrings(value any, change func(string) string) any {
	switch v := value.(type) {
	case string:
		return change(v)
	case []any:
		for i := range v {
			v[i] = mapStrings(v[i], change)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[change(key)] = mapStrings(inner, change)
		}
		return out
	}
	return value
}

// replaceWords replaces whole names: runs of the characters that names of API objects have.
func replaceWords(text string, words map[string]string) string {
	if word, ok := words[text]; ok {
		return word
	}
	var b strings.Builder
	start := -1
	flush := func(end int) {
		if start < 0 {
			return
		}
		token := text[start:end]
		trimmed := strings.TrimRight(token, ".-")
		if word, ok := words[trimmed]; ok {
			b.WriteString(word + token[len(trimmed):])
		} else {
			b.WriteString(token)
		}
		start = -1
	}
	for i, r := range text {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			if start < 0 {
				start = i
			}
			continue
		}
		flush(i)
		b.WriteRune(r)
	}
	flush(len(text))
	return b.String()
}
