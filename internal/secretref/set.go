package secretref

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Set has the references of one volume, by kind. Sets are comparable; the zero value has none.
type Set [kinds]types.NamespacedName

// NewSet resolves every kind, or returns the first problem.
func NewSet(parameters map[string]string, scope Scope) (Set, *Problem) {
	var s Set
	for k := range kinds {
		ref, problem := Resolve(k, parameters, scope)
		if problem != nil {
			return Set{}, problem
		}
		s[k] = ref
	}
	return s, nil
}

// Of returns the reference for a kind of call; the zero value for none.
func (s Set) Of(k Kind) types.NamespacedName { return s[k] }

// Reference returns the same for a field of a PersistentVolume; nil for none.
func (s Set) Reference(k Kind) *corev1.SecretReference {
	if ref := s[k]; ref.Name != "" {
		return &corev1.SecretReference{Namespace: ref.Namespace, Name: ref.Name}
	}
	return nil
}

// Text encodes the set for [ParseSet]; empty for the zero value.
func (s Set) Text() string {
	if s == (Set{}) {
		return ""
	}
	parts := make([]string, kinds)
	for k, ref := range s {
		parts[k] = ref.Namespace + "/" + ref.Name
	}
	return strings.Join(parts, ",")
}

// ParseSet decodes [Set.Text].
func ParseSet(text string) (Set, error) {
	var s Set
	if text == "" {
		return s, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) != int(kinds) {
		return Set{}, fmt.Errorf("%d secret references, not %d", len(parts), kinds)
	}
	for k, part := range parts {
		namespace, name, ok := strings.Cut(part, "/")
		if !ok {
			return Set{}, fmt.Errorf("secret reference %q has no slash", part)
		}
		s[k] = types.NamespacedName{Namespace: namespace, Name: name}
	}
	return s, nil
}
