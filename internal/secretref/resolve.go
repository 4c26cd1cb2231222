package secretref

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Scope has the values of template tokens.
type Scope struct {
	VolumeName  string // with its prefix
	Claim       types.NamespacedName
	Annotations map[string]string // of the claim; nil for DeleteVolume, when the claim is gone
}

// Problem is what is wrong with a reference, and which parameter of the class has it.
type Problem struct {
	Parameter string
	Text      string
	Fix       string
}

// Resolve returns the secret for a kind of call. The zero value without a problem means none.
func Resolve(k Kind, parameters map[string]string, scope Scope) (types.NamespacedName, *Problem) {
	for _, p := range candidates(k) {
		name, namespace, problem := p.templates(parameters)
		if problem != nil {
			return types.NamespacedName{}, problem
		}
		if name.key != "" {
			return resolve(name, namespace, scope)
		}
	}
	return types.NamespacedName{}, nil
}

// Namespace returns the namespace template of the secret for a kind of call; empty if there is
// none, or if the class is invalid.
func Namespace(k Kind, parameters map[string]string) string {
	for _, p := range candidates(k) {
		_, namespace, problem := p.templates(parameters)
		if problem != nil || namespace.key != "" {
			return namespace.template
		}
	}
	return ""
}

// half is one of the two parameters of a pair; its key is empty if the class does not set it.
type half struct{ key, template string }

// templates returns both parameters, or neither.
func (p pair) templates(parameters map[string]string) (name, namespace half, problem *Problem) {
	if name, problem = pick(parameters, p.name, p.oldName); problem != nil {
		return half{}, half{}, problem
	}
	if namespace, problem = pick(parameters, p.namespace, p.oldNamespace); problem != nil {
		return half{}, half{}, problem
	}
	switch {
	case name.key == "" && namespace.key == "":
		return name, namespace, nil
	case name.key == "":
		return half{}, half{}, lonely(namespace.key, p.name)
	case namespace.key == "":
		return half{}, half{}, lonely(name.key, p.namespace)
	}
	for _, h := range []half{name, namespace} {
		if h.template == "" {
			return half{}, half{}, &Problem{h.key, "is empty", "Give it a value, or remove both parameters of the pair"}
		}
	}
	return name, namespace, nil
}

func pick(parameters map[string]string, key, old string) (half, *Problem) {
	template, ok := parameters[key]
	oldTemplate, oldOK := parameters[old]
	switch {
	case ok && oldOK && old != "":
		return half{}, &Problem{key, "is there twice, once under its older name " + old, "Keep only " + key}
	case ok:
		return half{key, template}, nil
	case oldOK && old != "":
		return half{old, oldTemplate}, nil
	}
	return half{}, nil
}

func lonely(have, missing string) *Problem {
	return &Problem{have, "is there without " + missing, "Give both or neither"}
}

// tokens resolves the tokens of templates.
type tokens interface {
	forNamespace(token string) (string, bool)
	forName(token string) (string, bool)
}

func resolve(name, namespace half, scope tokens) (types.NamespacedName, *Problem) {
	var ref types.NamespacedName
	var problem *Problem
	if ref.Namespace, problem = namespace.fill(
		scope.forNamespace, validation.IsDNS1123Label, "namespace",
	); problem != nil {
		return types.NamespacedName{}, problem
	}
	if ref.Name, problem = name.fill(scope.forName, validation.IsDNS1123Subdomain, "secret"); problem != nil {
		return types.NamespacedName{}, problem
	}
	return ref, nil
}

// forNamespace returns the value of a token in a namespace. The claim's user controls neither of
// the two.
func (s Scope) forNamespace(token string) (string, bool) {
	switch token {
	case "pv.name":
		return s.VolumeName, s.VolumeName != ""
	case "pvc.namespace":
		return s.Claim.Namespace, s.Claim.Namespace != ""
	}
	return "", false
}

// forName returns the value of a token in a name.
func (s Scope) forName(token string) (string, bool) {
	if token == "pvc.name" {
		return s.Claim.Name, s.Claim.Name != ""
	}
	if key, ok := strings.CutPrefix(token, "pvc.annotations['"); ok && strings.HasSuffix(key, "']") {
		value, found := s.Annotations[strings.TrimSuffix(key, "']")]
		return value, found
	}
	return s.forNamespace(token)
}

// fill replaces the tokens and validates the result.
func (h half) fill(tokens func(string) (string, bool), invalid func(string) []string, what string) (string, *Problem) {
	var missing []string
	value := expand(h.template, func(token string) string {
		v, ok := tokens(token)
		if !ok {
			missing = append(missing, token)
		}
		return v
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		return "", &Problem{
			h.key,
			fmt.Sprintf("%q has tokens without a value: %q", h.template, slices.Compact(missing)),
			allowed(what),
		}
	}
	faults := invalid(value)
	switch {
	case len(faults) == 0:
		return value, nil
	case value == h.template:
		return "", &Problem{
			h.key, fmt.Sprintf("%q is not a valid name of a %s", value, what), strings.Join(faults, "; "),
		}
	}
	return "", &Problem{
		h.key,
		fmt.Sprintf("%q resolved to %q, which is not a valid name of a %s", h.template, value, what),
		strings.Join(faults, "; "),
	}
}

func allowed(what string) string {
	if what == "namespace" {
		return "A namespace may use ${pv.name} and ${pvc.namespace}"
	}
	return "A name may use ${pv.name}, ${pvc.namespace}, ${pvc.name} and, for annotations that the claim has, " +
		"${pvc.annotations['KEY']}"
}
