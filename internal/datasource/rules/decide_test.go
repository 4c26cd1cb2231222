package datasource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/purser-csi/purser/internal/verdict"
)

// DV-4, row by row, and DV-H1 for claims that have their volume.
func TestDecide(t *testing.T) {
	source := func(group, kind string) *corev1.TypedObjectReference {
		ref := &corev1.TypedObjectReference{Kind: kind, Name: "a"}
		if group != "" {
			ref.APIGroup = &group
		}
		return ref
	}
	served := []schema.GroupKind{{Group: "hello.example.com", Kind: "Hello"}}
	for name, tc := range map[string]struct {
		source *corev1.TypedObjectReference
		change func(*corev1.PersistentVolumeClaim)
		want   verdict.Reason
	}{
		"no source":                       {nil, nil, verdict.DataSourceNone},
		"a claim":                         {source("", "PersistentVolumeClaim"), nil, verdict.DataSourceKnown},
		"a snapshot":                      {source("snapshot.storage.k8s.io", "VolumeSnapshot"), nil, verdict.DataSourceKnown},
		"a kind of a populator":           {source("hello.example.com", "Hello"), nil, verdict.DataSourceKnown},
		"the kind in another group":       {source("other.example.com", "Hello"), nil, verdict.DataSourceUnrecognized},
		"another kind of the group":       {source("hello.example.com", "Bye"), nil, verdict.DataSourceUnrecognized},
		"a core kind that is no claim":    {source("", "Pod"), nil, verdict.DataSourceUnrecognized},
		"a snapshot in the core group":    {source("", "VolumeSnapshot"), nil, verdict.DataSourceUnrecognized},
		"an unknown kind, with a volume":  {source("", "Pod"), bound, verdict.DataSourceNone},
		"an unknown kind, being deleted":  {source("", "Pod"), deleting, verdict.DataSourceNone},
		"a group that is an empty string": {&corev1.TypedObjectReference{APIGroup: new(""), Kind: "PersistentVolumeClaim"}, nil, verdict.DataSourceKnown},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{}
			claim.Spec.DataSourceRef = tc.source
			if tc.change != nil {
				tc.change(claim)
			}
			if got := Decide(Snapshot{Claim: claim, Served: served}).Because(); got.Reason != tc.want {
				t.Errorf("got %s: %s, want %s", got.Reason, got.Text(), tc.want)
			}
		})
	}
	if got := Decide(Snapshot{}).Because().Reason; got != verdict.DataSourceNone {
		t.Errorf("without a claim: %s", got)
	}
}

// Alerts look for upstream's words.
func TestMessageBeginsAsUpstreams(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "Pod", Name: "a"}
	got := Decide(Snapshot{Claim: claim}).Because().Text()
	if !strings.HasPrefix(got, "The datasource for this PVC does not match any registered VolumePopulator") {
		t.Error(got)
	}
}

func bound(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }

func deleting(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }
