package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/purser-csi/purser/internal/names"
)

func class(name, provisioner string, mode *storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}, Provisioner: provisioner, VolumeBindingMode: mode}
}

func waiting(name string) *storagev1.StorageClass {
	return class(name, driver, new(storagev1.VolumeBindingWaitForFirstConsumer))
}

var central = Rules{Driver: driver, Namespace: "system", ManagedBy: "external-provisioner"}

// S-1: which capacities are published.
func TestPlan(t *testing.T) {
	classes := []*storagev1.StorageClass{
		waiting("w"), waiting("v"), class("unset", driver, nil), class("now", driver, new(storagev1.VolumeBindingImmediate)),
		class("other", "other.example", new(storagev1.VolumeBindingWaitForFirstConsumer)),
	}
	immediate := central
	immediate.Immediate = true
	for name, tc := range map[string]struct {
		rules    Rules
		segments []Segment
		want     []Key
	}{
		"segments and classes": {central, []Segment{"a", "b"}, []Key{{"v", "a"}, {"v", "b"}, {"w", "a"}, {"w", "b"}}},
		"F-19":                 {immediate, []Segment{""}, []Key{{"now", ""}, {"unset", ""}, {"v", ""}, {"w", ""}}},
		"no segment":           {central, nil, nil},
	} {
		plan := NewPlan(classes, tc.segments, tc.rules)
		if diff := cmp.Diff(tc.want, Changes(nil, plan)); diff != "" || len(plan.Keys) != len(tc.want) {
			t.Errorf("%s: %d keys: %s", name, len(plan.Keys), diff)
		}
	}
}

// S-13: a class that was deleted and created again may have other parameters, so its keys count as
// new.
func TestChangesOfARenewedClass(t *testing.T) {
	before := NewPlan([]*storagev1.StorageClass{waiting("v"), waiting("w")}, []Segment{"a"}, central)
	renewed := waiting("w")
	renewed.UID = "another"
	after := NewPlan([]*storagev1.StorageClass{waiting("v"), renewed}, []Segment{"a"}, central)
	if diff := cmp.Diff([]Key{{"w", "a"}}, Changes(before, after)); diff != "" {
		t.Error(diff)
	}
}

// The difference of two plans against a naive oracle.
func TestChangesOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := func(label string) *Plan {
			var classes []*storagev1.StorageClass
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"u", "v", "w"}), rapid.ID).Draw(t, label+" classes") {
				classes = append(classes, waiting(name))
			}
			segments := rapid.SliceOfDistinct(rapid.SampledFrom([]Segment{"", "a", "b", "c"}), rapid.ID).Draw(t, label+" segments")
			return NewPlan(classes, segments, central)
		}
		before, after := plan("before"), plan("after")
		want := map[Key]bool{}
		for _, pair := range [][2]*Plan{{before, after}, {after, before}} {
			for key := range pair[0].Keys {
				if !pair[1].Keys[key] {
					want[key] = true
				}
			}
		}
		got := map[Key]bool{}
		removals := false
		for _, key := range Changes(before, after) {
			if got[key] {
				t.Fatalf("%s twice", key)
			}
			if removals && after.Keys[key] {
				t.Fatalf("%s is new and comes after those that are gone", key)
			}
			got[key], removals = true, removals || !after.Keys[key]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// S-15: a new or deleted volume changes the capacity of each segment that overlaps its own.
func TestTouched(t *testing.T) {
	plan := NewPlan([]*storagev1.StorageClass{waiting("w")}, []Segment{"host=1,zone=a", "host=2,zone=a", "host=3,zone=b"}, central)
	for name, tc := range map[string]struct {
		places []Segment
		want   []Key
	}{
		"the segment":    {[]Segment{"host=2,zone=a"}, []Key{{"w", "host=2,zone=a"}}},
		"a wider one":    {[]Segment{"zone=a"}, []Key{{"w", "host=1,zone=a"}, {"w", "host=2,zone=a"}}},
		"twice":          {[]Segment{"host=3,zone=b", "zone=b"}, []Key{{"w", "host=3,zone=b"}}},
		"everywhere":     {nil, []Key{{"w", "host=1,zone=a"}, {"w", "host=2,zone=a"}, {"w", "host=3,zone=b"}}},
		"somewhere else": {[]Segment{"zone=c"}, nil},
	} {
		if diff := cmp.Diff(tc.want, plan.Touched(tc.places)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := (*Plan)(nil).Touched(nil); got != nil {
		t.Errorf("without a plan: %v", got)
	}
}

// S-20: the objects of a per-node provisioner are leftovers when its node does not exist.
func TestLeftovers(t *testing.T) {
	object := func(name, driver, manager string) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			names.LabelCapacityDriver: driver, names.LabelCapacityManagedBy: manager,
		}}}
	}
	gone := object("gone", driver, names.CapacityManager("gone"))
	got := Leftovers([]*storagev1.CSIStorageCapacity{
		gone, object("here", driver, names.CapacityManager("here")), object("central", driver, names.CapacityManager("")),
		object("theirs", "other", names.CapacityManager("gone")), object("another tool", driver, "tool"),
	}, []*corev1.Node{node("here", nil)}, central)
	if diff := cmp.Diff([]*storagev1.CSIStorageCapacity{gone}, got); diff != "" {
		t.Error(diff)
	}
}
