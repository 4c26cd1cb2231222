package record

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// A line whose names cannot be replaced is left out, and causes of unread kinds lose theirs.
func TestHideNamesOfOddLines(t *testing.T) {
	out, hidden := &buffer{}, &bytes.Buffer{}
	w := NewWriter(out, "test", ticking())
	_ = w.Begin()
	_ = w.Listed(map[explain.Kind]string{
		explain.Pod:  explain.OnlyIn + "shop may be read",
		explain.Node: `not "data", which cannot be decoded: "key"`,
	})
	w.Object(inventory.Seen{Object: claim(10, corev1.ClaimPending)})
	gone := claim(10, corev1.ClaimPending)
	gone.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "data"}}
	w.Object(inventory.Seen{Object: gone, Deleted: true}) // its content is that of the line before
	text := out.String() +
		`{"op":"delete","kind":"Pod","namespace":"shop","name":"data"}` + "\n" +
		`{"op":"change","kind":"Pod","namespace":"shop","name":"data","patch":{"spec":null}}` + "\n" +
		`{"op":"have","kind":"Pod","namespace":"shop","name":"data","object":{"kind":"Pod"}}` + "\n" +
		`{"op":"data","kind":"Pod","namespace":"shop","name":"data","note":"shop"}` + "\n"
	if !strings.Contains(text, `"op":"delete","kind":"PersistentVolumeClaim"`) {
		t.Fatal(text)
	}
	if _, err := HideNames([]byte(text), hidden); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{`shop`, `"data`, `key`} {
		if strings.Contains(hidden.String(), name) {
			t.Errorf("%s is left in %s", name, hidden.String())
		}
	}
	for _, want := range []string{`"op":"delete"`, explain.OnlyIn + "namespace-1 may be read", `"namespace":"namespace-1"`} {
		if !strings.Contains(hidden.String(), want) {
			t.Errorf("no %s in %s", want, hidden.String())
		}
	}
}
