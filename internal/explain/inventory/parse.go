package inventory

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/names"
)

// AnnDumpTime is the annotation on the List that `purser dump` writes: when the objects were read,
// in RFC 3339.
const AnnDumpTime = "purser/dump-time"

// AnnUnread is the prefix of annotations on that List that name the kinds that could not be read.
const AnnUnread = "purser/unread-"

// Parse reads YAML or JSON documents: single objects, lists of any kind, several documents in one
// stream. It returns the time that the dump names, if it does. Documents that are no API objects
// are an error that names which one. An object with a value that its field cannot have is left out,
// and the cluster's Unread names it.
func (b *Builder) Parse(name string, text []byte) (at time.Time, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return at, fmt.Errorf("%s: document %d: %w", name, n, err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		var content map[string]any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return at, fmt.Errorf("%s: document %d is neither YAML nor JSON: %w", name, n, err)
		}
		if content == nil { // only comments
			continue
		}
		found, err := b.parseObject(content)
		if err != nil {
			return at, fmt.Errorf("%s: document %d: %w", name, n, err)
		}
		if found.After(at) {
			at = found
		}
	}
}

// parseObject adds one object or the items of a list.
func (b *Builder) parseObject(content map[string]any) (at time.Time, err error) {
	object := unstructured.Unstructured{Object: content}
	kind := object.GroupVersionKind()
	if kind.Kind == "" {
		return at, errors.New("it has no kind: expected the output of kubectl get -o yaml, or of purser dump")
	}
	items, ok := content["items"].([]any)
	if !ok {
		if err := b.addContent(kind, content); err != nil {
			b.undecodable = append(b.undecodable, undecodable{explain.Kind(kind.Kind), object.GetName(), err})
		}
		return at, nil
	}
	at, _ = time.Parse(time.RFC3339, object.GetAnnotations()[AnnDumpTime])
	b.Empty(kind)
	for i, item := range items {
		if err := b.parseItem(item, kind, content["apiVersion"]); err != nil {
			return at, fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	b.noteUnread(object.GetAnnotations(), !at.IsZero())
	return at, nil
}

// parseItem adds one item of a list; in the lists of an API server an item does not have a kind of
// its own.
func (b *Builder) parseItem(item any, list schema.GroupVersionKind, apiVersion any) error {
	inner, ok := item.(map[string]any)
	if !ok {
		return errors.New("it is no object")
	}
	if inner["kind"] == nil {
		inner["kind"], inner["apiVersion"] = trimList(list.Kind), apiVersion
	}
	_, err := b.parseObject(inner)
	return err
}

// noteUnread notes the kinds that our dump lists as unread. All other kinds are complete in such a
// dump.
func (b *Builder) noteUnread(annotations map[string]string, ours bool) {
	for _, k := range kinds {
		if cause, ok := annotations[AnnUnread+k.resource.Resource]; ok {
			b.unread[k.name] = cause
		} else if ours {
			b.kinds[k.name] = true
		}
	}
}

func trimList(kind string) string {
	const suffix = "List"
	if len(kind) > len(suffix) && kind[len(kind)-len(suffix):] == suffix {
		return kind[:len(kind)-len(suffix)]
	}
	return kind
}

// addContent adds an object of a known kind.
func (b *Builder) addContent(kind schema.GroupVersionKind, content map[string]any) error {
	if isSpans(kind) {
		return b.addSpans(content)
	}
	object, version, err := decode(kind, content)
	if err != nil || object == nil {
		return err
	}
	if version != "" {
		b.cluster.NoteGroups(version)
	}
	b.Add(object)
	return nil
}

// Decode returns the object that a content is, without the values of secrets; nil for a kind that
// explanations do not read.
func Decode(content map[string]any) (client.Object, error) {
	of := unstructured.Unstructured{Object: content}
	object, _, err := decode(of.GroupVersionKind(), content)
	return object, err
}

// decode converts an object of a known kind. The values of secrets are dropped here. version is
// that in which a group snapshot was served.
func decode(kind schema.GroupVersionKind, content map[string]any) (o client.Object, version string, err error) {
	if kind.Kind == "Secret" {
		delete(content, "data")
		delete(content, "stringData")
	}
	if kind.Group == names.GroupSnapshotGroup { // of any version
		version = asGroupsV1(content)
		kind.Version = groups.Version
	}
	if isGrant(kind) {
		return &unstructured.Unstructured{Object: content}, "", nil
	}
	typed, err := Scheme().New(kind)
	if runtime.IsNotRegisteredError(err) {
		return nil, "", nil // nothing that explanations read
	}
	if err != nil {
		return nil, "", err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, version, err
	}
	object, _ := typed.(client.Object)
	return object, version, nil
}
