package mounting

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/test/fuzzing"
)

// fuzzWords are what the rules look for, and odd texts.
var fuzzWords = []string{
	"", "a", "b", "pv", "pv2", "d", "h", "n", "data", "\x00", "../x", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod", "Block", "Filesystem",
	"metadata.name", "In", "Bound",
}

// fuzzUse is the use of a volume by one of two pods, with what the API has of it.
func fuzzUse(in *fuzzing.Reader, key Key) Use {
	u := Use{
		Key: key, ID: fuzzID(in), Name: in.Text(), ReadOnly: in.Bool(), PV: in.Volume(), Claim: in.Claim(),
		Pod: &corev1.Pod{ObjectMeta: in.Meta()},
	}
	u.Pod.UID = u.ID.Pod
	switch {
	case key.IsInline():
		u.ID.Pod, u.ID.Mode, u.Pod.UID = key.Pod, Filesystem, key.Pod
		u.PV, u.Claim, u.Inline = nil, nil, &corev1.CSIVolumeSource{Driver: "d", FSType: in.MaybeText(), VolumeAttributes: in.Pairs()}
	case u.PV == nil:
		u.PV = &corev1.PersistentVolume{}
		fallthrough
	default: // a use has both, as Resolve makes it
		if u.Claim == nil {
			u.Claim = &corev1.PersistentVolumeClaim{}
		}
		if u.PV.Spec.CSI == nil {
			u.PV.Spec.CSI = in.CSI()
		}
	}
	if in.Bool() {
		u.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
		if in.Bool() {
			u.Pod.Spec.SecurityContext.FSGroup = new(int64(int8(in.Byte())))
		}
	}
	return u
}

func fuzzID(in *fuzzing.Reader) ID {
	id := ID{Pod: types.UID([]string{"a", "b"}[in.Byte()%2]), Spec: []string{"pv", "pv2"}[in.Byte()%2], Mode: Filesystem}
	if in.Bool() {
		id.Mode = Block
	}
	return id
}

func fuzzSnapshot(in *fuzzing.Reader) Snapshot {
	s := Snapshot{
		Key: Key{Driver: "d", Handle: "h"}, Node: Node{Name: "n", Labels: in.Pairs(), Reported: in.Bool(), Attached: in.Bool()},
		Attachment: in.Attachment(), Holders: map[types.UID]bool{}, Failed: map[any]int{},
	}
	if !in.Seldom() {
		s.Driver = &Driver{Name: "d", Stages: in.Bool(), Expands: in.Bool(), MountGroup: in.Bool(), MultiWriters: in.Bool()}
	}
	if in.Bool() {
		s.Info = &storagev1.CSIDriver{}
		if in.Bool() {
			s.Info.Spec.AttachRequired = new(in.Bool())
		}
		if in.Bool() {
			s.Info.Spec.RequiresRepublish = new(in.Bool())
		}
		if in.Bool() {
			s.Info.Spec.FSGroupPolicy = new(storagev1.FSGroupPolicy(in.Text()))
		}
	}
	if in.Seldom() {
		s.Key = Key{Driver: "d", Pod: "a", Name: "data"}
	}
	for range in.Byte() % 3 {
		use := fuzzUse(in, s.Key)
		s.Uses = append(s.Uses, use)
		s.Failed[use.ID] = int(in.Byte() % 3)
	}
	if in.Bool() {
		s.Holders["a"] = true
	}
	for range in.Byte() % 3 {
		s.Record = s.Record.WithDevice(Device{DeviceID: fuzzID(in).Device(), State: State(in.Byte() % 2), Bytes: int64(in.Byte()) << 30})
	}
	for range in.Byte() % 3 {
		s.Record = s.Record.WithPublication(Publication{
			ID: fuzzID(in), State: State(in.Byte() % 2), Published: in.Bool(), Found: in.Bool(), At: in.Time().Time,
		})
	}
	if in.Seldom() {
		s.Occupied = map[ID]Key{fuzzID(in): {Driver: "d", Handle: "former"}}
	}
	return s
}

// FuzzMounting: no object with missing fields and no record makes a decision panic, each has a known
// reason, a volume that a pod wants is not taken from it, and a driver that is not registered is not
// called.
func FuzzMounting(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x01\x01\x01\x00\x01\x01\x00\x00\x01\x00\x00\x00\x05\x00\x01\x03\x03\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x01\x01\x01\x01\x00\x00\x00\x01\x01\x00\x00\x00\x01\x05\x01\x00\x00\x00\x01\x01\x00\x01\x01\x01\x01\x01\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := fuzzing.New(raw, fuzzWords...)
		s := fuzzSnapshot(in)
		v := Decide(s, now)
		fuzzing.Known(t, v)
		todo, _ := v.(do)
		for _, action := range todo.Actions {
			checkStep(t, s, action)
			afterStep(t, s, action, in)
		}
		layout := Layout{Root: "/root"}
		for _, use := range s.Uses {
			if s.Driver == nil { // the steps of a driver that is not registered are not made
				break
			}
			if !s.Key.IsInline() { // an inline volume is neither staged nor expanded
				_, _ = s.StageRequest(layout, use)
				_, _ = s.ExpandRequest(layout, use)
			}
			_, _ = s.PublishRequest(layout, use)
			_, _, _ = s.OwnershipOf(use)
		}
	})
}

func checkStep(t *testing.T, s Snapshot, action Action) {
	t.Helper()
	if _, tells := action.(Tell); s.Driver == nil && !tells {
		t.Errorf("%T of a driver that is not registered", action)
	}
	switch a := action.(type) {
	case Unpublish:
		if s.Holders[a.Pod] || slices.ContainsFunc(s.Uses, func(u Use) bool { return u.ID == a.ID }) {
			t.Errorf("unpublished, although its pod wants it: %+v", a)
		}
	case Unstage:
		if slices.ContainsFunc(s.Uses, func(u Use) bool { return u.ID.Device() == a.DeviceID }) {
			t.Errorf("unstaged, although a pod wants it: %+v", a)
		}
		if slices.ContainsFunc(s.Record.Publications, func(p Publication) bool {
			return p.Device() == a.DeviceID && s.Holders[p.Pod]
		}) {
			t.Errorf("unstaged, although a pod has it: %+v", a)
		}
	default:
	}
}

func afterStep(t *testing.T, s Snapshot, action Action, in *fuzzing.Reader) {
	t.Helper()
	failure := &Failure{NoAnswer: in.Bool(), Code: codes.Code(in.Byte() % 17), Message: in.Text()}
	for _, f := range []*Failure{nil, failure} {
		var next Verdict
		switch a := action.(type) {
		case Stage:
			next = AfterStage(s, a.Use, f)
		case Publish:
			next = AfterPublish(a.Use, a.Before, f)
		case Expand:
			next = AfterExpand(a.Use, f)
		case Unpublish:
			next = AfterUnpublish(a.Publication, f)
		case Unstage:
			next = AfterUnstage(s, f)
		default:
		}
		if next != nil {
			fuzzing.Known(t, next)
		}
	}
}
