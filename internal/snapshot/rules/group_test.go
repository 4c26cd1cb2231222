package snapshotting

import (
	"strings"
	"testing"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/verdicttest"
)

var groupNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func groupClass(driver string) *groupv1.VolumeGroupSnapshotClass {
	return &groupv1.VolumeGroupSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, Driver: driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}
}

func defaultGroupClass(driver string) *groupv1.VolumeGroupSnapshotClass {
	class := groupClass(driver)
	class.Annotations = map[string]string{names.AnnDefaultGroupClass: "true"}
	return class
}

func source(name, driver string) Source {
	return Source{
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("u" + name)},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		Volume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "n", Name: name, UID: types.UID("u" + name)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h-" + name},
			},
		}},
	}
}

// groupWorld is a group of two bound claims with everything in order.
func groupWorld(edits ...func(*Group)) Group {
	s := Group{
		Inputs: Inputs{
			Key: types.NamespacedName{Namespace: "n", Name: "g"}, Read: allRead, Sources: []Source{source("a", "d"), source("b", "d")},
		},
		Snapshot: &groupv1.VolumeGroupSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g", UID: "u"},
			Spec: groupv1.VolumeGroupSnapshotSpec{
				VolumeGroupSnapshotClassName: new("c"),
				Source: groupv1.VolumeGroupSnapshotSource{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				},
			},
		},
		Class: groupClass("d"),
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

// groupWithContent gives the group a content that the driver has answered for, with both members.
func groupWithContent(edits ...func(*groupv1.VolumeGroupSnapshotContent)) func(*Group) {
	return func(s *Group) {
		created, _, _ := viewOf(*s, groupNow).newContent(classOf(groupClass("d")))
		content := created.(*groupv1.VolumeGroupSnapshotContent)
		content.Status = &groupv1.VolumeGroupSnapshotContentStatus{
			VolumeGroupSnapshotHandle: new("gh"), ReadyToUse: new(true), CreationTime: new(metav1.NewTime(groupNow)),
			VolumeSnapshotInfoList: []groupv1.VolumeSnapshotInfo{
				{VolumeHandle: "h-a", SnapshotHandle: "s-a", ReadyToUse: new(true)}, {VolumeHandle: "h-b", SnapshotHandle: "s-b", ReadyToUse: new(true)},
			},
		}
		for _, edit := range edits {
			edit(content)
		}
		s.Content = content
		if content.Status != nil {
			for i, info := range content.Status.VolumeSnapshotInfoList {
				s.Members = append(s.Members, Member{Info: info, Volumes: []*corev1.PersistentVolume{s.Sources[i].Volume}})
			}
		}
	}
}

func unanswered(c *groupv1.VolumeGroupSnapshotContent) { c.Status = nil }

func groupRetained(c *groupv1.VolumeGroupSnapshotContent) {
	c.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
}

func groupFinalized(s *Group) { s.Snapshot.Finalizers = []string{names.FinalizerGroupSnapshot} }

func groupDeleting(s *Group) { s.Snapshot.DeletionTimestamp = new(metav1.NewTime(groupNow)) }

// settled has the members exist, and the status say what the content says.
func settled(s *Group) {
	for i := range s.Members {
		s.Members[i].Snapshot = &snapshotv1.VolumeSnapshot{Status: &snapshotv1.VolumeSnapshotStatus{}}
		s.Members[i].Content = &snapshotv1.VolumeSnapshotContent{Status: &snapshotv1.VolumeSnapshotContentStatus{}}
	}
	viewOf(*s, groupNow).copied(contentOf(s.Content)).SetOn(s.Snapshot)
}

func selector(labels map[string]string, expressions ...metav1.LabelSelectorRequirement) func(*Group) {
	return func(s *Group) {
		s.Snapshot.Spec.Source.Selector = &metav1.LabelSelector{MatchLabels: labels, MatchExpressions: expressions}
	}
}

func groupStatic(s *Group) {
	s.Snapshot.Spec.Source = groupv1.VolumeGroupSnapshotSource{VolumeGroupSnapshotContentName: new("old")}
	s.Content = &groupv1.VolumeGroupSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Spec: groupv1.VolumeGroupSnapshotContentSpec{
			VolumeGroupSnapshotRef: corev1.ObjectReference{Namespace: "n", Name: "g"}, Driver: "d",
			Source: groupv1.VolumeGroupSnapshotContentSource{
				GroupSnapshotHandles: &groupv1.GroupSnapshotHandles{VolumeGroupSnapshotHandle: "gh", VolumeSnapshotHandles: []string{"s-a"}},
			},
		},
	}
}

func TestDecideGroup(t *testing.T) {
	const refused = "do WriteStatus; refuse "
	for _, tc := range []struct {
		name string
		s    Group
		want string
	}{
		{"gone", groupWorld(func(s *Group) { s.Snapshot = nil }), "nothing SnapshotIdle"},
		{"SN-G1: dynamic", groupWorld(), "do PrepareSnapshot,CreateContent,WriteStatus; wait SnapshotAwaitsDriver"},
		{"SN-G1: after a crash", groupWorld(groupFinalized), "do CreateContent,WriteStatus; wait SnapshotAwaitsDriver"},
		{"SN-H1: empty selector", groupWorld(selector(nil)), refused + "GroupInvalid"},
		{"SN-H1: selector that is not valid", groupWorld(selector(nil, metav1.LabelSelectorRequirement{Key: "a", Operator: "Like"})), refused + "GroupInvalid"},
		{"SN-H1: expressions only", groupWorld(selector(nil, metav1.LabelSelectorRequirement{Key: "a", Operator: "Exists"}), groupFinalized), "do CreateContent,WriteStatus; wait SnapshotAwaitsDriver"},
		{"nothing selected", groupWorld(func(s *Group) { s.Sources = nil }), refused + "GroupContentCreateFailed"},
		{"SN-G7: two drivers", groupWorld(func(s *Group) { s.Sources[1] = source("b", "e") }), refused + "GroupContentCreateFailed"},
		{"claim unbound", groupWorld(func(s *Group) { s.Sources[1].Claim.Status.Phase = corev1.ClaimPending }), refused + "GroupContentCreateFailed"},
		{"claim deleting", groupWorld(func(s *Group) { s.Sources[1].Claim.DeletionTimestamp = new(metav1.NewTime(groupNow)) }), refused + "GroupContentCreateFailed"},
		{"volume of another claim", groupWorld(func(s *Group) { s.Sources[1].Volume.Spec.ClaimRef.UID = "x" }), refused + "GroupContentCreateFailed"},
		{"class missing", groupWorld(func(s *Group) { s.Class = nil }), refused + "GroupClassNotFound"},
		{"class of another driver", groupWorld(func(s *Group) { s.Class = groupClass("e") }), refused + "GroupContentCreateFailed"},
		{"default class", groupWorld(func(s *Group) {
			s.Snapshot.Spec.VolumeGroupSnapshotClassName = nil
			s.Classes = []*groupv1.VolumeGroupSnapshotClass{defaultGroupClass("d"), defaultGroupClass("e"), groupClass("d")}
		}), "do PrepareSnapshot,CreateContent,WriteStatus; wait SnapshotAwaitsDriver"},
		{"two default classes", groupWorld(func(s *Group) {
			s.Snapshot.Spec.VolumeGroupSnapshotClassName = nil
			s.Classes = []*groupv1.VolumeGroupSnapshotClass{defaultGroupClass("d"), defaultGroupClass("d")}
		}), refused + "GroupClassUnclear"},
		{"no source", groupWorld(func(s *Group) { s.Snapshot.Spec.Source.Selector = nil }), refused + "GroupInvalid"},
		{"the driver has not answered", groupWorld(groupFinalized, groupWithContent(unanswered), settled), "wait SnapshotAwaitsDriver"},
		{"SN-G3: members", groupWorld(groupFinalized, groupWithContent()), "do CreateMember,CreateMember,WriteStatus; nothing GroupUsable"},
		{"SN-G3: one member is there", groupWorld(groupFinalized, groupWithContent(), settled, func(s *Group) { s.Members[1].Snapshot = nil }), "do CreateMember; nothing SnapshotIdle"},
		{"ready", groupWorld(groupFinalized, groupWithContent(), settled), "nothing SnapshotIdle"},
		{"content of another", groupWorld(groupFinalized, groupWithContent(func(c *groupv1.VolumeGroupSnapshotContent) { c.Spec.VolumeGroupSnapshotRef.UID = "x" })), refused + "GroupContentTaken"},
		{"content lost", groupWorld(groupFinalized, groupWithContent(), settled, func(s *Group) { s.Content = nil }), refused + "GroupContentAbsent"},
		{"SN-G6: static", groupWorld(groupStatic), "do PrepareSnapshot,BindContent,WriteStatus; wait SnapshotAwaitsDriver"},
		{"SN-G6: static, content absent", groupWorld(groupStatic, func(s *Group) { s.Content = nil }), refused + "GroupContentAbsent"},
		{"dynamic content for a static group", groupWorld(groupStatic, func(s *Group) { s.Content.Spec.Source.GroupSnapshotHandles = nil }), refused + "GroupContentUnfit"},
		{"SN-G4: deleted before anything", groupWorld(groupDeleting), "nothing SnapshotDeleting"},
		{"SN-G4: deleted", groupWorld(groupFinalized, groupWithContent(), settled, groupDeleting, func(s *Group) { s.Owned = []string{"m"} }), "do MarkDeleting,DeleteContent,DeleteMember; wait SnapshotDeleting"},
		{"SN-G4: deleted, retained", groupWorld(groupFinalized, groupWithContent(groupRetained), settled, groupDeleting), "do MarkDeleting,ReleaseSnapshot; nothing SnapshotDeleting"},
		{"SN-G4: a member is restored", groupWorld(groupFinalized, groupWithContent(), settled, groupDeleting, func(s *Group) { s.Restoring = []string{"n/c"} }), "refuse SnapshotRestoring"},
		{"SN-H4: the content without the status", groupWorld(groupFinalized, groupWithContent(unanswered), groupDeleting), "do MarkDeleting,DeleteContent; wait SnapshotDeleting"},
		{"content gone", groupWorld(groupFinalized, groupDeleting), "do ReleaseSnapshot; nothing SnapshotDeleting"},
	} {
		if got := verdicttest.Show(DecideSnapshot(tc.s, groupNow)); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// SN-G3, SN-N10, SN-N11: a member's content is of the volume, and what the driver said of the
// snapshot is in its first status. With a snapshotHandle as the source upstream's sidecar would
// delete the snapshot for itself.
func TestMembers(t *testing.T) {
	s := groupWorld(groupFinalized, groupWithContent(func(c *groupv1.VolumeGroupSnapshotContent) {
		c.Annotations = map[string]string{names.AnnGroupDeletionSecretName: "s", names.AnnGroupDeletionSecretNamespace: "n"}
		c.Status.VolumeSnapshotInfoList[0].RestoreSize, c.Status.VolumeSnapshotInfoList[0].CreationTime = new(int64(5)), new(int64(7))
	}))
	made := viewOf(s, groupNow).members()
	one, is := made[0].(CreateMember)
	if !is {
		t.Fatalf("%T", made[0])
	}
	if got := one.Content.Spec.Source; got.SnapshotHandle != nil || got.VolumeHandle == nil || *got.VolumeHandle != "h-a" {
		t.Errorf("the source of the content is %+v", got)
	}
	if got := one.Content.Annotations; got[names.AnnGroupSnapshotHandle] != "gh" || got[names.AnnSnapshotDeletionSecretName] != "s" {
		t.Errorf("the annotations of the content are %v", got)
	}
	want := &snapshotv1.VolumeSnapshotContentStatus{
		SnapshotHandle: new("s-a"), VolumeGroupSnapshotHandle: new("gh"), ReadyToUse: new(true),
		RestoreSize: new(int64(5)), CreationTime: new(int64(7)),
	}
	if !equality.Semantic.DeepEqual(one.ContentStatus, want) {
		t.Errorf("the status of the content is %+v, want %+v", one.ContentStatus, want)
	}
}

// SN-Q2, SN-G1: a class that does not exist is an error in the status, and says nothing of readiness.
func TestClassErrors(t *testing.T) {
	for name, test := range map[string]struct {
		s       Group
		written bool // readyToUse
	}{
		"class missing":    {groupWorld(func(s *Group) { s.Class = nil }), false},
		"no default class": {groupWorld(func(s *Group) { s.Snapshot.Spec.VolumeGroupSnapshotClassName = nil }), false},
		"nothing selected": {groupWorld(func(s *Group) { s.Sources = nil }), true},
	} {
		done, _ := DecideSnapshot(test.s, groupNow).(do)
		if len(done.Actions) != 1 {
			t.Errorf("%s: %d actions", name, len(done.Actions))
			continue
		}
		write, _ := done.Actions[0].(WriteStatus)
		if write.Status.Error == nil || (write.Status.Ready != nil) != test.written {
			t.Errorf("%s: the status is %+v", name, write.Status)
		}
	}
}

// SN-H1: what a selector selects, by its labels, its expressions, and both.
func TestSelector(t *testing.T) {
	in := metav1.LabelSelectorRequirement{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"data"}}
	for _, tc := range []struct {
		name string
		s    Group
		want map[string]bool // by the labels of a claim
	}{
		{"labels", groupWorld(selector(map[string]string{"app": "db"})), map[string]bool{"app=db": true, "tier=data": false, "app=db,tier=data": true}},
		{"expressions", groupWorld(selector(nil, in)), map[string]bool{"app=db": false, "tier=data": true, "": false}},
		{"both", groupWorld(selector(map[string]string{"app": "db"}, in)), map[string]bool{"app=db": false, "tier=data": false, "app=db,tier=data": true}},
	} {
		selector, err := Selector(tc.s.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range tc.want {
			set := labels.Set{}
			for pair := range strings.SplitSeq(text, ",") {
				if key, value, ok := strings.Cut(pair, "="); ok {
					set[key] = value
				}
			}
			if selector.Matches(set) != want {
				t.Errorf("%s: %q is selected: %v", tc.name, text, !want)
			}
		}
	}
}
