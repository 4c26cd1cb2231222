package inventory

import (
	"fmt"
	"strings"
)

// labels replaces the keys and values of labels, each always by the same word, so that selectors
// and affinities still match. Labels of Kubernetes and of topologies stay: volumes are placed by
// them.
type labels struct{ keys, values map[string]string }

func newLabels() labels { return labels{keys: map[string]string{}, values: map[string]string{}} }

// isPublicLabel reports whether a label is one of Kubernetes or of a topology. Those of
// app.kubernetes.io have the names of the user's programs.
func isPublicLabel(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	return found && prefix != "app.kubernetes.io" &&
		(strings.HasSuffix(prefix, "kubernetes.io") || strings.HasPrefix(prefix, "topology."))
}

func wordFor(words map[string]string, text, kind string) string {
	if text == "" {
		return ""
	}
	if words[text] == "" {
		words[text] = fmt.Sprintf("%s-%d", kind, len(words)+1)
	}
	return words[text]
}

func (l labels) key(text string) string {
	if isPublicLabel(text) {
		return text
	}
	return wordFor(l.keys, text, "label")
}

func (l labels) value(text string) string { return wordFor(l.values, text, "value") }

// hideIn replaces the labels in a value, at whatever depth.
func (l labels) hideIn(value any) {
	switch v := value.(type) {
	case []any:
		for _, inner := range v {
			l.hideIn(inner)
		}
	case map[string]any:
		l.hideRequirement(v)
		for field, inner := range v {
			switch of, isMap := inner.(map[string]any); {
			case isMap && (field == "labels" || field == "matchLabels" || field == "nodeSelector"):
				v[field] = l.hidden(of)
			case field == "topologyKeys", field == "matchLabelKeys", field == "mismatchLabelKeys":
				l.hideKeys(inner)
			case field == "topologyKey":
				if text, isText := inner.(string); isText {
					v[field] = l.key(text)
				}
			default:
				l.hideIn(inner)
			}
		}
	}
}

// hidden returns a map of labels with other keys and values.
func (l labels) hidden(of map[string]any) map[string]any {
	out := make(map[string]any, len(of))
	for key, value := range of {
		if text, isText := value.(string); isText && !isPublicLabel(key) {
			value = l.value(text)
		}
		out[l.key(key)] = value
	}
	return out
}

// hideRequirement replaces the labels of a requirement of a selector, a taint or a toleration: each
// has a key, and values or one value.
func (l labels) hideRequirement(of map[string]any) {
	key, isText := of["key"].(string)
	if !isText || key == "" || isPublicLabel(key) {
		return
	}
	of["key"] = l.key(key)
	if text, isText := of["value"].(string); isText {
		of["value"] = l.value(text)
	}
	if list, isList := of["values"].([]any); isList {
		for i := range list {
			if text, isText := list[i].(string); isText {
				list[i] = l.value(text)
			}
		}
	}
}

func (l labels) hideKeys(value any) {
	if list, isList := value.([]any); isList {
		for i := range list {
			if text, isText := list[i].(string); isText {
				list[i] = l.key(text)
			}
		}
	}
}
