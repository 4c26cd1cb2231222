package snapshotting

import (
	"strings"
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/verdicttest"
)

// D-37: a group is not deleted while another content names it or one of its snapshots.
func TestSharedGroup(t *testing.T) {
	other := func(edits ...func(*GroupContent)) *groupv1.VolumeGroupSnapshotContent {
		c := contentWorld(edits...).Content
		c.Name, c.UID = "other", "other"
		return c
	}
	otherGroup := func(s *GroupContent) { s.Content.Status.VolumeGroupSnapshotHandle = new("another") }
	single := func(edits ...func(*snapshotv1.VolumeSnapshotContent)) *snapshotv1.VolumeSnapshotContent {
		c := &snapshotv1.VolumeSnapshotContent{Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: "d", Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new("s-a")},
		}}
		for _, edit := range edits {
			edit(c)
		}
		return c
	}
	member := func(c *snapshotv1.VolumeSnapshotContent) {
		c.Annotations = map[string]string{names.AnnGroupSnapshotHandle: "gh"}
	}
	removed := func(c *snapshotv1.VolumeSnapshotContent) { c.DeletionTimestamp = new(metav1.NewTime(groupNow)) }
	foreign := func(c *snapshotv1.VolumeSnapshotContent) { c.Spec.Driver = "e" }
	const deletes, releases, holds = "do DeleteSnapshot", "do ReleaseContent; nothing ContentDeleting", "refuse GroupContentHeld"
	for _, tc := range []struct {
		name  string
		group *groupv1.VolumeGroupSnapshotContent
		one   *snapshotv1.VolumeSnapshotContent
		want  string
	}{
		{"none", nil, nil, deletes},
		{"D-37: another content of the group", other(answered(true)), nil, releases},
		{"D-37: another content of the group, which exists already", other(existing), nil, releases},
		{"the other one is being deleted too", other(answered(true), contentDeleting, marked(names.AnnGroupBeingDeleted)), nil, deletes},
		{"D-37: another group with a snapshot of it", other(answered(true), otherGroup), nil, holds},
		{"D-37: an imported snapshot of it", nil, single(), holds},
		{"the imported one is being deleted too", nil, single(removed), deletes},
		{"its own member", nil, single(member), deletes},
		{"the handle is another driver's", nil, single(foreign), deletes},
	} {
		s := contentWorld(answered(true), contentDeleting, marked(names.AnnGroupBeingDeleted))
		var others Sharing
		if tc.group != nil && IsSharing(s.Content, tc.group) {
			others.Groups = append(others.Groups, tc.group)
		}
		if tc.one != nil && IsSharingSnapshot(s.Content, tc.one) {
			others.Contents = append(others.Contents, tc.one)
		}
		if got := verdicttest.Show(DecideContent(s, groupNow)); got != "read [sharing/gh]" {
			t.Errorf("%s: the others are not listed: %s", tc.name, got)
		}
		s.Sharing = &others
		if got := verdicttest.Show(DecideContent(s, groupNow)); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// SN-V3: an imported content of policy Delete has the finalizer before it is bound.
func TestImportedGroupGetsItsFinalizer(t *testing.T) {
	imported := contentWorld(existing, func(s *GroupContent) {
		s.Content.Finalizers, s.Content.Spec.VolumeGroupSnapshotRef.UID = nil, ""
	}).Content
	retained := imported.DeepCopy()
	retained.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
	if !contentOf(imported).lacksFinalizer() || contentOf(retained).lacksFinalizer() {
		t.Error("policy Delete needs it, and Retain does not")
	}
	got := verdicttest.Show(DecideSnapshot(Group{Referring: []*groupv1.VolumeGroupSnapshotContent{imported}}, groupNow))
	if got != "do ProtectContent; nothing SnapshotIdle" {
		t.Error(got)
	}
}

// SN-E1: a deletion that waits for the outcome of a call that cannot be repeated says what to do.
func TestGroupDeletionSaysWhatHoldsIt(t *testing.T) {
	s := contentWorld(contentDeleting, marked(names.AnnGroupBeingCreated))
	v := AfterCreate(s, Answer{}, &Failure{NoAnswer: true}, groupNow).(contentDo).Then
	if text := v.Because().Text(); !strings.Contains(text, "remove the annotation "+names.AnnGroupBeingCreated) {
		t.Error(text)
	}
}
