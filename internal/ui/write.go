package ui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// write is what one change of an object wrote.
type write struct {
	By      []string
	Version string
	Fields  []fieldChange
	More    int // fields that are not shown
}

// fieldChange is one field before and after a write; empty where it was absent.
type fieldChange struct{ Path, Before, After string }

const (
	mostFields = 40
	mostOfText = 400
)

// writeOf returns the write that made a mark; nil if the source does not have it. The caller holds
// the lock.
func (s *State) writeOf(m life.Mark) *write {
	if m.Version == "" || m.Object.Kind == explain.Event {
		return nil
	}
	before, after := s.versions(m)
	if after == nil {
		return nil
	}
	w := &write{By: m.By, Version: m.Version, Fields: diff(before, after)}
	if len(w.Fields) > mostFields {
		w.Fields, w.More = w.Fields[:mostFields], len(w.Fields)-mostFields
	}
	return w
}

// versions returns the object before and after the write of a mark.
func (s *State) versions(m life.Mark) (before, after metav1.Object) {
	for _, c := range s.past().VersionsOf(m.Object) {
		if c.Object.GetResourceVersion() == m.Version {
			return before, c.Object
		}
		before = c.Object
	}
	return nil, nil
}

// diff compares the contents of two versions as a dump has them, without what every write changes.
func diff(before, after metav1.Object) (all []fieldChange) {
	was, now := map[string]string{}, map[string]string{}
	flatten("", contentOf(before), was)
	flatten("", contentOf(after), now)
	for path, value := range now {
		if was[path] != value {
			all = append(all, fieldChange{path, was[path], value})
		}
	}
	for path, value := range was {
		if _, has := now[path]; !has {
			all = append(all, fieldChange{path, value, ""})
		}
	}
	all = slices.DeleteFunc(all, func(f fieldChange) bool {
		return f.Path == "metadata.resourceVersion" || f.Path == "metadata.generation" ||
			strings.HasPrefix(f.Path, "metadata.managedFields")
	})
	slices.SortFunc(all, func(a, b fieldChange) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func contentOf(o metav1.Object) any {
	object, ok := o.(client.Object)
	if !ok {
		return nil
	}
	if _, isSecret := object.(*corev1.Secret); isSecret {
		return nil
	}
	content, err := inventory.Content(object)
	if err != nil {
		return nil
	}
	return content
}

// flatten writes the leaves of a value by their paths.
func flatten(path string, value any, into map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for field, inner := range v {
			flatten(strings.TrimPrefix(path+"."+field, "."), inner, into)
		}
	case []any:
		for i, inner := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), inner, into)
		}
	case nil:
	case string:
		into[path] = cut(v)
	default:
		text, _ := json.Marshal(v) // a leaf of decoded JSON has no error
		into[path] = cut(string(text))
	}
}

func cut(text string) string {
	if len(text) > mostOfText {
		return strings.ToValidUTF8(text[:mostOfText], "") + "…"
	}
	return text
}
