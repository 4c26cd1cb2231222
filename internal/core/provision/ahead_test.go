package provision

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
)

// What is expected is what will be recorded, and nothing where it is not known that something will
// be.
func TestAhead(t *testing.T) {
	for name, tc := range map[string]struct {
		edits []func(*Snapshot)
		want  bool
	}{
		"C-12 nobody has asked yet":        {[]func(*Snapshot){unasked}, true},
		"C-12 asked for":                   {nil, false},
		"C-12 asked of another":            {[]func(*Snapshot){func(s *Snapshot) { s.Claim.Annotations[names.AnnStorageProvisioner] = "other" }}, false},
		"C-10 gone":                        {[]func(*Snapshot){noClaim}, false},
		"C-11 bound":                       {[]func(*Snapshot){unasked, bound}, false},
		"C-15 waits for a pod":             {[]func(*Snapshot){unasked, firstUse}, false},
		"C-15 a pod is scheduled":          {[]func(*Snapshot){unasked, firstUse, func(s *Snapshot) { s.Claim.Annotations[names.AnnSelectedNode] = "n" }}, false},
		"C-14 another driver's class":      {[]func(*Snapshot){unasked, func(s *Snapshot) { s.Class.Provisioner = "other" }}, false},
		"C-21 no class":                    {[]func(*Snapshot){unasked, func(s *Snapshot) { s.Class = nil }}, false},
		"H-42 on its way out":              {[]func(*Snapshot){unasked, deleting}, false},
		"C-55 a selector":                  {[]func(*Snapshot){unasked, func(s *Snapshot) { s.Claim.Spec.Selector = &metav1.LabelSelector{} }}, false},
		"H-1 on record":                    {[]func(*Snapshot){unasked, func(s *Snapshot) { s.Pending = &intent.Entry{} }}, false},
		"U-51 with labels of a namespace":  {[]func(*Snapshot){unasked, namespaceLabels}, false},
		"C-54 a driver that makes nothing": {[]func(*Snapshot){unasked, func(s *Snapshot) { s.Driver.Controller = nil }}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(tc.edits...)
			got, ok := Ahead(s)
			if ok != tc.want {
				t.Fatalf("expected: %t", ok)
			}
			if !ok {
				return
			}
			s.Claim.Annotations[names.AnnStorageProvisioner] = s.Driver.Name
			todo, _ := Decide(s, time.Unix(0, 0)).(do)
			if record, is := first(todo.Actions).(Record); !is || cmp.Diff(record.Entry, got, protocmp.Transform()) != "" {
				t.Errorf("recorded is %+v, and expected was %+v", todo.Actions, got)
			}
		})
	}
}

func first(actions []Action) Action {
	if len(actions) == 0 {
		return nil
	}
	return actions[0]
}

func namespaceLabels(s *Snapshot) {
	s.Options.DriverMetadata = []MetadataKey{{Source: NamespaceLabel, Key: "team"}}
}
