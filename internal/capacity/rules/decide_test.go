package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

var owner = metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d-uid", Controller: new(true)}

// published is an object as the API server returns it, for the key w in zone=a.
func published(name string, bytes int64, edit ...func(*storagev1.CSIStorageCapacity)) *storagev1.CSIStorageCapacity {
	o := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name, UID: "uid-" + "x", ResourceVersion: "7", Labels: map[string]string{
			names.LabelCapacityDriver: driver, names.LabelCapacityManagedBy: "external-provisioner", "theirs": "stays",
		}},
		StorageClassName: "w", NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}},
		Capacity: resource.NewQuantity(bytes, resource.BinarySI),
	}
	for _, e := range edit {
		e(o)
	}
	return o
}

func snapshot(objects ...*storagev1.CSIStorageCapacity) Snapshot {
	return Snapshot{Key: Key{"w", "zone=a"}, IsPlanned: true, Class: waiting("w"), Objects: objects, Rules: central, MaxAge: time.Hour}
}

// text returns a verdict as one line: the reason, the actions, and the verdict after them.
func text(v Verdict) string {
	switch v := v.(type) {
	case do:
		var steps []string
		for _, a := range v.Actions {
			steps = append(steps, step(a))
		}
		return strings.Join(steps, ", ") + " -> " + text(v.Then)
	case refuse:
		return "refuse " + string(v.Reason)
	}
	return string(v.Because().Reason)
}

func step(a Action) string {
	switch a := a.(type) {
	case GetCapacity:
		return "ask"
	case Create:
		return "create " + values(a.Object)
	case Update:
		return "update " + a.Object.Name + " " + values(a.Object)
	case Delete:
		return "delete " + a.Object.Name
	}
	return fmt.Sprintf("%T", a)
}

func values(o *storagev1.CSIStorageCapacity) string {
	v := ValuesOf(o)
	if !v.HasCapacity {
		return "unknown"
	}
	if v.HasMaximum {
		return fmt.Sprintf("%d of %d", v.Maximum, v.Capacity)
	}
	return fmt.Sprint(v.Capacity)
}

func TestDecide(t *testing.T) {
	older := func(o *storagev1.CSIStorageCapacity) { o.CreationTimestamp = metav1.Unix(1, 0) }
	newer := func(o *storagev1.CSIStorageCapacity) { o.CreationTimestamp = metav1.Unix(2, 0) }
	for name, tc := range map[string]struct {
		edit    func(*Snapshot)
		objects []*storagev1.CSIStorageCapacity
		want    string
	}{
		"S-1 no object":             {nil, nil, "ask -> CapacityPublished"},
		"S-14 poll":                 {nil, []*storagev1.CSIStorageCapacity{published("a", 1)}, "ask -> CapacityPublished"},
		"S-10 two objects":          {nil, []*storagev1.CSIStorageCapacity{published("a", 1, newer), published("b", 1, older)}, "delete a, ask -> CapacityPublished"},
		"S-10 three of one age":     {nil, []*storagev1.CSIStorageCapacity{published("c", 1), published("a", 1), published("b", 1)}, "delete c, delete b, ask -> CapacityPublished"},
		"S-13 segment is gone":      {func(s *Snapshot) { s.IsPlanned = false }, []*storagev1.CSIStorageCapacity{published("a", 1), published("b", 1)}, "delete a, delete b -> CapacityNotPlanned"},
		"S-13 class is gone":        {func(s *Snapshot) { s.Class = nil }, []*storagev1.CSIStorageCapacity{published("a", 1)}, "delete a -> CapacityNotPlanned"},
		"S-13 class of another":     {func(s *Snapshot) { s.Class = class("w", "other", nil) }, []*storagev1.CSIStorageCapacity{published("a", 1)}, "delete a -> CapacityNotPlanned"},
		"S-13 neither is there":     {func(s *Snapshot) { s.IsPlanned = false }, nil, "CapacityNotPlanned"},
		"S-1 class binds immediate": {func(s *Snapshot) { s.Class = class("w", driver, new(storagev1.VolumeBindingImmediate)) }, nil, "CapacityNotPlanned"},
	} {
		s := snapshot(tc.objects...)
		if tc.edit != nil {
			tc.edit(&s)
		}
		if got := text(Decide(s)); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// S-7: the GetCapacity request has the class parameters without reserved prefixes and the segment.
func TestRequest(t *testing.T) {
	s := snapshot()
	s.Class.Parameters = map[string]string{
		"pool": "fast", "csi.storage.k8s.io/fstype": "xfs", "csi.storage.k8s.io/provisioner-secret-name": "s", "purser/minimum-size": "1Gi",
	}
	want := &csi.GetCapacityRequest{
		Parameters: map[string]string{"pool": "fast"}, AccessibleTopology: &csi.Topology{Segments: map[string]string{"zone": "a"}},
	}
	if got := s.request(); got.String() != want.String() {
		t.Errorf("got %v, want %v", got, want)
	}
	s.Key.Segment, s.Class.Parameters = "", nil
	if got := s.request(); got.String() != (&csi.GetCapacityRequest{}).String() {
		t.Errorf("the whole cluster: %v", got)
	}
}

func TestAfterAnswer(t *testing.T) {
	owned := func(o *storagev1.CSIStorageCapacity) { o.OwnerReferences = []metav1.OwnerReference{owner} }
	for name, tc := range map[string]struct {
		objects []*storagev1.CSIStorageCapacity
		owner   *metav1.OwnerReference
		answer  *csi.GetCapacityResponse
		want    string
	}{
		"S-6 new":                   {nil, nil, &csi.GetCapacityResponse{AvailableCapacity: 5}, "create 5 -> CapacityPublished"},
		"S-6 nothing left":          {nil, nil, &csi.GetCapacityResponse{}, "create 0 -> CapacityPublished"},
		"S-8 the largest volume":    {nil, nil, &csi.GetCapacityResponse{AvailableCapacity: 5, MaximumVolumeSize: wrapperspb.Int64(3), MinimumVolumeSize: wrapperspb.Int64(1)}, "create 3 of 5 -> CapacityPublished"},
		"S-8 equal":                 {[]*storagev1.CSIStorageCapacity{published("a", 5)}, nil, &csi.GetCapacityResponse{AvailableCapacity: 5}, "CapacityPublished"},
		"S-8 less":                  {[]*storagev1.CSIStorageCapacity{published("a", 5)}, nil, &csi.GetCapacityResponse{AvailableCapacity: 4}, "update a 4 -> CapacityPublished"},
		"S-8 a largest volume":      {[]*storagev1.CSIStorageCapacity{published("a", 5)}, nil, &csi.GetCapacityResponse{AvailableCapacity: 5, MaximumVolumeSize: wrapperspb.Int64(5)}, "update a 5 of 5 -> CapacityPublished"},
		"S-8 no owner":              {[]*storagev1.CSIStorageCapacity{published("a", 5)}, &owner, &csi.GetCapacityResponse{AvailableCapacity: 5}, "update a 5 -> CapacityPublished"},
		"S-8 the owner":             {[]*storagev1.CSIStorageCapacity{published("a", 5, owned)}, &owner, &csi.GetCapacityResponse{AvailableCapacity: 5}, "CapacityPublished"},
		"S-9 withdrawn before":      {[]*storagev1.CSIStorageCapacity{published("a", 5, func(o *storagev1.CSIStorageCapacity) { o.Capacity = nil })}, nil, &csi.GetCapacityResponse{}, "update a 0 -> CapacityPublished"},
		"the driver is wrong":       {[]*storagev1.CSIStorageCapacity{published("a", 5)}, nil, &csi.GetCapacityResponse{AvailableCapacity: -1}, "refuse CapacityInvalid"},
		"the driver is wrong again": {nil, nil, &csi.GetCapacityResponse{MaximumVolumeSize: wrapperspb.Int64(-1)}, "refuse CapacityInvalid"},
	} {
		s := snapshot(tc.objects...)
		s.Rules.Owner = tc.owner
		if got := text(s.AfterAnswer(tc.answer)); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// S-6, LB-1: all fields of a new object.
func TestObject(t *testing.T) {
	s := snapshot()
	s.Rules.Owner = &owner
	created := s.AfterAnswer(&csi.GetCapacityResponse{AvailableCapacity: 1 << 30}).(do).Actions[0].(Create).Object
	want := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "system", Name: created.Name, OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{"csi.storage.k8s.io/drivername": driver, "csi.storage.k8s.io/managed-by": "external-provisioner"},
		},
		StorageClassName: "w", NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}, Capacity: new(resource.MustParse("1Gi")),
	}
	if diff := cmp.Diff(want.String(), created.String()); diff != "" {
		t.Error(diff)
	}
	if created.Name != s.object(nil, nil).Name || !strings.HasPrefix(created.Name, "csisc-") {
		t.Errorf("S-10: the name is %s, which must be the same each time", created.Name)
	}
	for what, edit := range map[string]func(*Snapshot){
		"class": func(s *Snapshot) { s.Key.Class = "v" }, "segment": func(s *Snapshot) { s.Key.Segment = "" },
		"driver": func(s *Snapshot) { s.Rules.Driver = "d" }, "node": func(s *Snapshot) { s.Rules.ManagedBy = "external-provisioner-n" },
	} {
		other := snapshot()
		if edit(&other); other.name() == created.Name {
			t.Errorf("the same name with another %s", what)
		}
	}
}

// S-8: the API server allows one controller among the owners, so the new one replaces it.
func TestOwnerTakesThePlaceOfAnotherController(t *testing.T) {
	s := snapshot(published("a", 5, func(o *storagev1.CSIStorageCapacity) {
		o.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "stays", UID: "o"}, {Kind: "ReplicaSet", Name: "old", UID: "r", Controller: new(true)}}
	}))
	s.Rules.Owner = &owner
	updated := s.AfterAnswer(&csi.GetCapacityResponse{AvailableCapacity: 5}).(do).Actions[0].(Update).Object
	if diff := cmp.Diff([]metav1.OwnerReference{{Kind: "Other", Name: "stays", UID: "o"}, owner}, updated.OwnerReferences); diff != "" {
		t.Error(diff)
	}
	if len(s.Objects[0].OwnerReferences) != 2 || s.Objects[0].OwnerReferences[1].Name != "old" {
		t.Error("the object of the cache was changed")
	}
}

// S-9: the last capacity of a failing segment stays until MaxAge and is then withdrawn.
func TestAfterFailure(t *testing.T) {
	withdrawn := published("a", 5, func(o *storagev1.CSIStorageCapacity) { o.Capacity = nil })
	for name, tc := range map[string]struct {
		object     *storagev1.CSIStorageCapacity
		failingFor time.Duration
		maxAge     time.Duration
		want       string
	}{
		"just now":          {published("a", 5), time.Minute, time.Hour, "refuse CapacityFailed"},
		"for too long":      {published("a", 5), time.Hour, time.Hour, "update a unknown -> refuse CapacityUnknown"},
		"withdrawn already": {withdrawn, 2 * time.Hour, time.Hour, "refuse CapacityUnknown"},
		"never published":   {nil, time.Hour, time.Hour, "refuse CapacityUnknown"},
		"no limit":          {published("a", 5), 100 * time.Hour, 0, "refuse CapacityFailed"},
	} {
		s := snapshot()
		if tc.object != nil {
			s.Objects = append(s.Objects, tc.object)
		}
		s.FailingFor, s.MaxAge = tc.failingFor, tc.maxAge
		v := s.AfterFailure("Unavailable", "rpc error: code = Unavailable desc = the node is down")
		if got := text(v); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
		if finding := v.Because(); finding.Code != "Unavailable" || !strings.Contains(finding.Message, "the node is down") || !strings.Contains(finding.Message, "w in zone=a") {
			t.Errorf("%s: %+v", name, finding)
		}
	}
	if verdict.Describe(verdict.CapacityUnknown).Severity != verdict.Warning {
		t.Error("S-9: no event")
	}
}

// S-10, S-12: an object with the name exists, and the cache does not have it.
func TestAfterExists(t *testing.T) {
	wanted := snapshot().object(resource.NewQuantity(5, resource.BinarySI), nil)
	for name, tc := range map[string]struct {
		live *storagev1.CSIStorageCapacity
		want string
	}{
		"as wanted":        {published("a", 5), "CapacityPublished"},
		"another value":    {published("a", 4), "update a 5 -> CapacityPublished"},
		"labels are gone":  {published("a", 5, func(o *storagev1.CSIStorageCapacity) { o.Labels = nil }), "update a 5 -> CapacityPublished"},
		"another class":    {published("a", 5, func(o *storagev1.CSIStorageCapacity) { o.StorageClassName = "v" }), "delete a, create 5 -> CapacityPublished"},
		"another topology": {published("a", 5, func(o *storagev1.CSIStorageCapacity) { o.NodeTopology = nil }), "delete a, create 5 -> CapacityPublished"},
	} {
		if got := text(snapshot().AfterExists(wanted, tc.live)); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// S-10: an object that the cache has not shown for half a poll may be gone, and is read live once.
func TestUnseenObject(t *testing.T) {
	for unseen, want := range map[time.Duration]bool{0: false, 29 * time.Second: false, 30 * time.Second: true} {
		s := snapshot(published("o", 1))
		s.Poll, s.UnseenFor = time.Minute, unseen
		asks, reads := Decide(s).(verdict.Read[Action])
		if reads != want || reads && asks.Refs[0] != ReadObject(s.Objects[0]) {
			t.Errorf("unseen for %s: %+v", unseen, Decide(s))
		}
	}
}
