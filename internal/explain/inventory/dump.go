package inventory

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
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
	if spec := podSpec(o); spec != nil {
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
	return content, nil
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
				RestartPolicy: c.RestartPolicy,
			}
		}
	}
	spec.EphemeralContainers = nil
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
// VolumeSnapshot, by which they are found; groupMadeOfUID is that of VolumeGroupSnapshotContents.
const (
	madeOfUID      = "snapcontent-"
	groupMadeOfUID = "groupsnapcontent-"
)

// attachmentHash matches the names that the attach-detach controller gives VolumeAttachments: a
// hash of the handle, the driver and the node. By it the controller recognizes its own.
var attachmentHash = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)

// HideNames replaces names in all texts, each by a word that stands for it everywhere: those of
// claims, volumes, pods and their containers, nodes, namespaces, secrets and snapshots, present or
// only referred to by an event or another object. It replaces the keys and values of labels and of
// what selects by them, other than those of Kubernetes and of topologies. It redacts the values
// that a person or a driver writes freely and keeps their keys: annotations other than those of the
// volume plane, the parameters of classes, mount options, images and volume attributes, which may
// also be secrets. Names of drivers, classes and leases stay: a cause cannot be found without them.
func HideNames(items []map[string]any) []map[string]any {
	words := map[string]string{}
	counts := map[string]int{}
	note := func(kind, name string) {
		if name == "" || words[name] != "" || slices.Contains(publicNames, name) || explain.IsSidecar(name) ||
			strings.HasPrefix(name, madeOfUID) || strings.HasPrefix(name, groupMadeOfUID) ||
			attachmentHash.MatchString(name) {
			return
		}
		counts[kind]++
		words[name] = fmt.Sprintf("%s-%d", strings.ToLower(kind), counts[kind])
	}
	noteNames(items, note)
	labels := newLabels()
	for _, item := range items {
		noteReferences(item, note)
		redactFree(item)
		labels.hideIn(item)
	}
	noteDerived(items, words)
	phrases := newPhrases(words)
	hide := func(text string) string {
		if word, ok := words[text]; ok {
			return word
		}
		return replaceWords(phrases.Replace(text), words)
	}
	for i := range items {
		items[i], _ = mapStrings(items[i], hide).(map[string]any)
	}
	return items
}

// noteNames notes the names of the objects, and of those that events say were wished for and refused.
func noteNames(items []map[string]any, note func(kind, name string)) {
	for _, item := range items {
		kind, _ := item["kind"].(string)
		metadata, _ := item["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		namespace, _ := metadata["namespace"].(string)
		note("Namespace", namespace)
		if kind == "CSINode" { // it has the name of its Node, which may be gone
			note("Node", name)
		}
		if hiddenKinds[kind] {
			note(kind, name)
		}
		if kind == "Event" { // its name is that of its object, a dot and a number
			note(kind, name)
			message, _ := item["message"].(string)
			for _, wished := range explain.WishedIn(message) {
				note(string(wished.Kind), wished.Name)
			}
		}
	}
}

const redacted = "redacted"

// redactFree redacts the values of maps and lists that a person or a driver fills freely. Their
// keys stay, since a cause may depend on them.
func redactFree(value any) {
	switch v := value.(type) {
	case []any:
		for _, inner := range v {
			redactFree(inner)
		}
	case map[string]any:
		for field, inner := range v {
			switch field {
			case "parameters", "volumeAttributes", "attributes", "attachmentMetadata", "volumeContext":
				redactValues(inner, func(key string) bool { return strings.HasPrefix(key, "csi.storage.k8s.io/") })
			case "annotations":
				redactJournal(inner)
				redactValues(inner, isVolumePlaneKey)
			case "image":
				text, _ := inner.(string)
				v[field] = cmp.Or(explain.SidecarImage(text), redacted)
			case "hostPath":
				redactValues(inner, func(key string) bool {
					of, _ := inner.(map[string]any)
					path, _ := of["path"].(string)
					return key != "path" || strings.Contains(path, "/kubelet/") || strings.Contains(path, "/plugins/")
				})
			case "imageID", "containerID":
				v[field] = redacted
			case "mountOptions":
				if list, ok := inner.([]any); ok {
					for i := range list {
						list[i] = redacted
					}
				}
			default:
				redactFree(inner)
			}
		}
	}
}

// redactJournal removes the requests of a journal, which have names of claims and parameters of
// classes. A text that cannot be read stays one, since that is a cause.
func redactJournal(value any) {
	annotations, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, name := range []string{names.AnnIntents, names.AnnIntentsUnreadable} {
		text, ok := annotations[name].(string)
		if !ok {
			continue
		}
		annotations[name] = redacted
		if _, err := intent.Decode(text); err == nil {
			delete(annotations, name)
		}
	}
}

func redactValues(value any, isKept func(key string) bool) {
	values, ok := value.(map[string]any)
	if !ok {
		return
	}
	for key := range values {
		if !isKept(key) {
			values[key] = redacted
		}
	}
}

// isVolumePlaneKey reports whether the decisions depend on the annotation. Names in its value are
// replaced as everywhere.
func isVolumePlaneKey(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(prefix, "kubernetes.io") && prefix != "kubectl.kubernetes.io" || prefix == "purser"
}

// mapStrings applies a function to every string in a value. Of the keys it changes those with a
// slash, of annotations: others are names of fields and resources, such as storage, which may be
// that of a namespace too.
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
			if key == "apiVersion" || key == "kind" { // a claim may be called v1
				out[key] = inner
				continue
			}
			if strings.Contains(key, "/") {
				key = change(key)
			}
			out[key] = mapStrings(inner, change)
		}
		return out
	}
	return value
}

// leastPhrase is the length from which on a name is replaced within a text too. A shorter one, such
// as a handle A, would be found in any word.
const leastPhrase = 4

// newPhrases replaces names with other characters than names of API objects have, such as handles,
// wherever they are in a text, the longest first.
func newPhrases(words map[string]string) *strings.Replacer {
	var phrases []string
	for name := range words {
		if len(name) >= leastPhrase && strings.ContainsFunc(name, func(r rune) bool { return !isOfName(r) }) {
			phrases = append(phrases, name)
		}
	}
	slices.SortFunc(phrases, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	var pairs []string
	for _, name := range phrases {
		pairs = append(pairs, name, words[name])
	}
	return strings.NewReplacer(pairs...)
}

// isOfName reports whether names of API objects have the character.
func isOfName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.'
}

// replaceWords replaces whole names: runs of the characters that names of API objects have.
func replaceWords(text string, words map[string]string) string {
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
			b.WriteString(hideService(token, words))
		}
		start = -1
	}
	for i, r := range text {
		if isOfName(r) {
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
