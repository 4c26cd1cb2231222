package inventory

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// publicNames are namespaces of common software. They do not identify the owner of a cluster.
var publicNames = []string{
	"default",
	"kube-system",
	"kube-public",
	"kube-node-lease",
	"kube-controller-manager",
	"kube-scheduler",
	"default-scheduler",
	"snapshot-controller-leader",
	"system-cluster-critical",
	"system-node-critical",
	"0.0.0.0",
	"127.0.0.1",
}

// quotaOfClass is between the name of a class and that of a resource in a ResourceQuota.
const quotaOfClass = ".storageclass.storage.k8s.io/"

// driversOf returns the drivers that the objects name.
func driversOf(items []map[string]any) (all []string) {
	for _, item := range items {
		metadata, _ := item["metadata"].(map[string]any)
		spec, _ := item["spec"].(map[string]any)
		csi, _ := spec["csi"].(map[string]any)
		candidates := []any{item["provisioner"], item["driver"], csi["driver"], spec["driver"], spec["attacher"]}
		if item["kind"] == "CSIDriver" {
			candidates = append(candidates, metadata["name"])
		}
		for _, candidate := range candidates {
			if name, isText := candidate.(string); isText && name != "" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
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
// claims, volumes, classes, pods and their containers, nodes and their addresses, namespaces,
// secrets, snapshots and leases, present or only referred to by an event or another object. It
// replaces the keys and values of labels and of what selects by them, other than those of
// Kubernetes and of topologies. It redacts the values that a person or a driver writes freely and
// keeps their keys: annotations other than those of the volume plane, the parameters of classes,
// mount options, images and volume attributes, which may also be secrets. Names of drivers and of
// the leases of their sidecars stay: a cause cannot be found without them.
func HideNames(items []map[string]any) []map[string]any {
	words := map[string]string{}
	counts := map[string]int{}
	drivers := driversOf(items)
	note := func(kind, name string) {
		if name == "" || words[name] != "" || slices.Contains(publicNames, name) || explain.IsSidecar(name) ||
			strings.HasPrefix(name, madeOfUID) || strings.HasPrefix(name, groupMadeOfUID) ||
			attachmentHash.MatchString(name) {
			return
		}
		counts[kind]++
		words[name] = fmt.Sprintf("%s-%d", strings.ToLower(kind), counts[kind])
	}
	for _, item := range items {
		noteItself(item, drivers, note)
	}
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
		if class, rest, of := strings.Cut(text, quotaOfClass); of && words[class] != "" {
			return words[class] + quotaOfClass + rest
		}
		return replaceWords(phrases.Replace(text), words)
	}
	for i := range items {
		items[i], _ = mapStrings(items[i], hide).(map[string]any)
	}
	return items
}

// noteItself notes the name and the namespace of an object, and the names of what an event says was
// wished for and refused.
func noteItself(item map[string]any, drivers []string, note func(kind, name string)) {
	kind, _ := item["kind"].(string)
	metadata, _ := item["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	note("Namespace", namespace)
	switch {
	case kind == "CSINode": // it has the name of its Node, which may be gone
		note("Node", name)
	case hiddenKinds[kind], kind == "Event", // the name of an event is that of its object, a dot and a number
		kind == "Lease" && !explain.IsComponentLease(name, drivers):
		note(kind, name)
	}
	if message, _ := item["message"].(string); kind == "Event" {
		for _, wished := range explain.WishedIn(message) {
			note(string(wished.Kind), wished.Name)
		}
	}
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
			// A claim may be called v1, and a name may be the end of a reason, such as Up.
			if key == "apiVersion" || key == "kind" || key == names.AnnReason && isReason(inner) {
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

// isReason reports whether a value is a reason of docs/reasons.md. Any object may have any text under
// the key of the reason.
func isReason(value any) bool {
	text, _ := value.(string)
	return text != "" && !strings.ContainsAny(text, "\n#") && verdict.IsDocumented(verdict.Reason(text))
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
