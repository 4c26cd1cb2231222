package invariant

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/test/compat/record"
)

// seesaw detects fields that controllers set back to an earlier value without an action of another
// client in between (I7).
type seesaw struct {
	// every value that a field has had since another client acted, the present one last
	values map[types.UID]map[string][]string
}

func newSeesaw() *seesaw { return &seesaw{values: map[types.UID]map[string][]string{}} }

// watched are the fields that controllers own.
var watched = [][]string{
	{"status", "phase"},
	{"spec", "claimRef"},
	{"spec", "volumeName"},
	{"metadata", "annotations"},
	{"metadata", "finalizers"},
	{"status", "capacity"},
	{"spec", "storageClassName"},
}

// pushed records an action of another client: fields may return to values from before it.
func (s *seesaw) pushed() {
	for _, fields := range s.values {
		for name, had := range fields {
			fields[name] = had[len(had)-1:]
		}
	}
}

// moved records a change, and returns the fields that were set back.
func (s *seesaw) moved(c record.Change) (found []string) {
	uid := c.Object.GetUID()
	if c.Gone {
		delete(s.values, uid)
		return nil
	}
	fields := s.values[uid]
	if fields == nil {
		fields = map[string][]string{}
		s.values[uid] = fields
	}
	for _, path := range watched {
		name := path[len(path)-1]
		had, value := fields[name], render(c.Object, path)+forWhom(c, path)
		if len(had) > 0 && had[len(had)-1] == value {
			continue
		}
		if slices.Contains(had, value) {
			found = append(found, fmt.Sprintf("I7: %s goes back to %s, with no other client acting", name, value))
		}
		fields[name] = append(had, value)
	}
	return found
}

// forWhom returns the claim that a volume's phase and annotations belong to. A volume that moves
// from one claim to another is Available in between, and Bound twice, which is not a violation.
func forWhom(c record.Change, path []string) string {
	uid, _, _ := unstructured.NestedString(c.Object.Object, "spec", "claimRef", "uid")
	if last := path[len(path)-1]; c.Kind != record.Volumes || uid == "" || last != "phase" && last != "annotations" {
		return ""
	}
	return " for " + uid
}

func render(o *unstructured.Unstructured, path []string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	if ref, ok := value.(map[string]any); ok && path[1] == "claimRef" {
		value = ref["uid"] // its resource version is the claim's
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
