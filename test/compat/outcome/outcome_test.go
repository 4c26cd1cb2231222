package outcome_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/compat/record"
)

func claim(namespace, uid, version string, status map[string]any) record.Change {
	return record.Change{Kind: record.Claims, Object: &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": "c", "namespace": namespace, "uid": uid, "resourceVersion": version, "creationTimestamp": version,
			"finalizers": []any{"b", "a"},
		},
		"spec":   map[string]any{"volumeName": namespace + ".v", "of": uid},
		"status": status,
	}}}
}

func told(namespace, message string) record.Change {
	return record.Change{Kind: record.Events, Object: &unstructured.Unstructured{Object: map[string]any{
		"involvedObject": map[string]any{"kind": "PersistentVolumeClaim", "namespace": namespace, "name": "c"},
		"type":           "Normal", "reason": "Because", "message": message, "count": int64(3),
	}}}
}

func TestOutcomesOfTwoRunsAreEqual(t *testing.T) {
	status := map[string]any{"phase": "Bound"}
	a := outcome.Of("first", []record.Change{claim("first", "1111-1", "7", nil), claim("first", "1111-1", "8", status), told("first", "for first.v")})
	b := outcome.Of("second", []record.Change{claim("second", "2222-2", "9", status), told("second", "for second.v"), told("second", "the object has been modified")})
	if diff := outcome.Difference(a, b); len(diff) > 0 {
		t.Error(diff)
	}
	if !a["pvc/c spec.of = <uid:pvc/c>"] || !a["pvc/c event Normal Because: for v"] || !a["pvc/c metadata.finalizers[a] = a"] {
		t.Errorf("%v", a)
	}
}

func TestDifference(t *testing.T) {
	a := outcome.Of("scene", []record.Change{claim("scene", "0815", "7", map[string]any{"phase": "Bound"})})
	b := outcome.Of("scene", []record.Change{claim("scene", "0815", "7", map[string]any{"phase": "Lost"}), told("scene", "why")})
	want := []string{"+ pvc/c event Normal Because: why", "- pvc/c status.phase = Bound", "+ pvc/c status.phase = Lost"}
	if diff := cmp.Diff(want, outcome.Difference(a, b)); diff != "" {
		t.Error(diff)
	}
}

const list = `
- {scenario: "s*", is: better, where: page.md#why, lines: ["+ pvc/c event *", "- pvc/c status.phase = Bound"]}
- {scenario: other, is: limitation, where: page.md#why, lines: ["*"]}
`

func TestList(t *testing.T) {
	known, err := outcome.ReadList([]byte(list), func(string) (string, error) { return `<a id="why"></a>`, nil })
	if err != nil {
		t.Fatal(err)
	}
	found, unlisted := known.Judge("some", []string{"+ pvc/c event Normal X: y", "- pvc/c status.phase = Bound!", "- pvc/c status.phase = Bound"})
	if diff := cmp.Diff([]string{"- pvc/c status.phase = Bound!"}, unlisted); diff != "" || len(found) != 2 {
		t.Error(diff, found)
	}
	if unused := known.Unused(); len(unused) != 1 || unused[0].Scenario != "other" {
		t.Error(unused)
	}
}

func TestListNeedsAnExplanation(t *testing.T) {
	for name, open := range map[string]func(string) (string, error){
		"no page":    func(string) (string, error) { return "", errors.New("no such page") },
		"no heading": func(string) (string, error) { return "# Why", nil },
	} {
		if _, err := outcome.ReadList([]byte(list), open); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
