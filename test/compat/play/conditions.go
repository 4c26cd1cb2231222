package play

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/test/compat/record"
	"github.com/purser-csi/purser/test/compat/scenario"
)

// until waits for changes in the recorder until unmet returns an empty text.
func (p *Player) until(ctx context.Context, unmet func() string) error {
	ctx, cancel := context.WithTimeout(ctx, p.stage.Patience)
	defer cancel()
	for {
		changed := p.stage.Recorder.Changed(p.play.Name)
		why := unmet()
		if why == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s, after %s", why, p.stage.Patience)
		}
	}
}

// wait waits for conditions. A condition that is not met is a result, not an error: the scenario
// goes on.
func (p *Player) wait(ctx context.Context, s scenario.Step) error {
	if err := p.until(ctx, func() string { return p.unmet(s) }); err != nil {
		p.Failures = append(p.Failures, fmt.Sprintf("line %d: %s: %v", s.Line, s.Text, err))
	}
	return context.Cause(ctx)
}

// expect checks conditions when the scenario is quiet.
func (p *Player) expect(ctx context.Context, s scenario.Step) error {
	if err := p.settle(ctx); err != nil {
		return err
	}
	if why := p.unmet(s); why != "" {
		p.Failures = append(p.Failures, fmt.Sprintf("line %d: %s: %s", s.Line, s.Text, why))
	}
	return nil
}

// unmet says which condition of a step is not met; empty: none.
func (p *Player) unmet(s scenario.Step) string {
	k := kindOf(s)
	namespace, name := p.place(k, s.Name)
	o, found := p.stage.Recorder.Get(k, namespace, name)
	if slices.Contains(s.Words, "gone") {
		if found {
			return "it is still there"
		}
		return ""
	}
	if !found {
		return "it is not there"
	}
	for _, word := range s.Words {
		if why := stateUnmet(o, word); why != "" {
			return why
		}
	}
	for _, option := range s.Options {
		if why := p.optionUnmet(k, o, option); why != "" {
			return why
		}
	}
	return ""
}

func stateUnmet(o *unstructured.Unstructured, word string) string {
	terminating := o.GetDeletionTimestamp() != nil
	switch word {
	case "exists":
		return ""
	case "terminating", "kept":
		if terminating != (word == "terminating") {
			return fmt.Sprintf("terminating is %v", terminating)
		}
		return ""
	}
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	if !slices.Contains(strings.Split(word, "|"), phase) {
		return fmt.Sprintf("the phase is %q", phase)
	}
	return ""
}

// optionUnmet compares one option with the object. Alternative values are separated by |.
func (p *Player) optionUnmet(k record.Kind, o *unstructured.Unstructured, option scenario.Option) string {
	switch option.Key {
	case "ann", "no-ann":
		return annotationUnmet(o, option)
	case "finalizer":
		return given(!slices.Contains(o.GetFinalizers(), option.Value), "finalizer %s is not there", option.Value)
	case "no-finalizer":
		return given(slices.Contains(o.GetFinalizers(), option.Value), "finalizer %s is there", option.Value)
	case "event":
		return given(!p.hasEvent(k, o, option.Value), "there is no event %s", option.Value)
	case "no-event":
		return given(p.hasEvent(k, o, option.Value), "there is an event %s", option.Value)
	case "cond", "no-cond":
		return given(hasCondition(o, option.Value) != (option.Key == "cond"), "%s=%s does not hold", option.Key, option.Value)
	case "calls":
		return given(strconv.Itoa(p.stage.Driver.Calls(o.GetName())) != option.Value, "the driver was called %d times", p.stage.Driver.Calls(o.GetName()))
	case "field":
		path, want, _ := strings.Cut(option.Value, "=")
		return differs(o, want, strings.Split(path, ".")...)
	}
	return p.referenceUnmet(o, option)
}

func hasCondition(o *unstructured.Unstructured, kind string) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == kind
	})
}

func annotationUnmet(o *unstructured.Unstructured, option scenario.Option) string {
	short, want, _ := strings.Cut(option.Value, "=")
	key := annotation(short)
	have, found := o.GetAnnotations()[key]
	if option.Key == "no-ann" {
		return given(found, "annotation %s is %q", key, have)
	}
	return given(!found || want != "" && want != have, "annotation %s is %q", key, have)
}

// referenceUnmet is about fields that name another object.
func (p *Player) referenceUnmet(o *unstructured.Unstructured, option scenario.Option) string {
	switch option.Key {
	case "volume":
		return differs(o, p.names(option.Value), "spec", "volumeName")
	case "claim":
		return differs(o, option.Value, "spec", "claimRef", "name")
	case "uid":
		uid, err := p.claimUID(option.Value)
		if option.Value != "" && err != nil {
			return err.Error()
		}
		return differs(o, string(uid), "spec", "claimRef", "uid")
	case "class":
		return differs(o, p.names(option.Value), "spec", "storageClassName")
	case "capacity":
		return differs(o, option.Value, "status", "capacity", "storage")
	}
	return fmt.Sprintf("there is no condition %q", option.Key)
}

// names are the real names for a|b.
func (p *Player) names(text string) string {
	if text == "" {
		return ""
	}
	parts := strings.Split(text, "|")
	for i := range parts {
		parts[i] = p.className(parts[i])
	}
	return strings.Join(parts, "|")
}

func given(bad bool, format string, args ...any) string {
	if bad {
		return fmt.Sprintf(format, args...)
	}
	return ""
}

func differs(o *unstructured.Unstructured, want string, path ...string) string {
	found, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	have := ""
	if found != nil {
		have = fmt.Sprint(found)
	}
	return given(!slices.Contains(strings.Split(want, "|"), have), "%s is %q", strings.Join(path, "."), have)
}

// hasEvent reports whether an event with this reason was emitted for an object.
func (p *Player) hasEvent(k record.Kind, o *unstructured.Unstructured, reason string) bool {
	for _, c := range p.stage.Recorder.History(p.play.Name) {
		involved, _, _ := unstructured.NestedMap(c.Object.Object, "involvedObject")
		if c.Kind == record.Events && c.Object.Object["reason"] == reason && involved["kind"] == k.Version.Kind &&
			involved["uid"] == string(o.GetUID()) {
			return true
		}
	}
	return false
}

// dropFinalizer removes one finalizer by a patch that fails if the list has changed, and is then
// retried.
func (p *Player) dropFinalizer(ctx context.Context, k record.Kind, name, finalizer string) error {
	for {
		o, err := p.of(k).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == finalizer })
		patch, err := json.Marshal(
			map[string]any{"metadata": map[string]any{"finalizers": left, "resourceVersion": o.GetResourceVersion()}},
		)
		if err != nil {
			return err
		}
		patched, err := p.of(k).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		switch {
		case err == nil:
			p.wrote(patched)
			return p.ended(ctx, k, patched)
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err):
			return err
		}
	}
}
