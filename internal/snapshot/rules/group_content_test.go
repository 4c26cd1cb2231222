package snapshotting

import (
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/verdicttest"
)

// contentWorld is the content of a dynamic group that the driver was not asked for yet.
func contentWorld(edits ...func(*GroupContent)) GroupContent {
	s := GroupContent{
		ContentSettings: ContentSettings{Driver: "d", Naming: Naming{Prefix: "groupsnapshot", Length: -1}},
		Content: &groupv1.VolumeGroupSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{names.FinalizerGroupContent}, CreationTimestamp: metav1.NewTime(groupNow)},
			Spec: groupv1.VolumeGroupSnapshotContentSpec{
				VolumeGroupSnapshotRef: corev1.ObjectReference{Namespace: "n", Name: "g", UID: "u"}, Driver: "d",
				VolumeGroupSnapshotClassName: new("c"), DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
				Source: groupv1.VolumeGroupSnapshotContentSource{VolumeHandles: []string{"h-a", "h-b"}},
			},
		},
		Class: groupClass("d"),
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func answered(ready bool) func(*GroupContent) {
	return func(s *GroupContent) {
		s.Content.Status = &groupv1.VolumeGroupSnapshotContentStatus{
			VolumeGroupSnapshotHandle: new("gh"), ReadyToUse: &ready,
			VolumeSnapshotInfoList: []groupv1.VolumeSnapshotInfo{{VolumeHandle: "h-a", SnapshotHandle: "s-a"}},
		}
	}
}

func existing(s *GroupContent) {
	s.Content.Spec.Source = groupv1.VolumeGroupSnapshotContentSource{
		GroupSnapshotHandles: &groupv1.GroupSnapshotHandles{VolumeGroupSnapshotHandle: "gh", VolumeSnapshotHandles: []string{"s-a"}},
	}
}

func contentDeleting(s *GroupContent) { s.Content.DeletionTimestamp = new(metav1.NewTime(groupNow)) }

func marked(key string) func(*GroupContent) {
	return func(s *GroupContent) { metav1.SetMetaDataAnnotation(&s.Content.ObjectMeta, key, "yes") }
}

func groupShared(others Sharing) func(*GroupContent) {
	return func(s *GroupContent) { s.Sharing = &others }
}

func TestGroupDecideContent(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    GroupContent
		want string
	}{
		{"gone", contentWorld(func(s *GroupContent) { s.Content = nil }), "nothing ContentIdle"},
		{"of another driver", contentWorld(func(s *GroupContent) { s.Content.Spec.Driver = "e" }), "nothing ContentIdle"},
		{"SN-G2: create", contentWorld(), "do CreateSnapshot"},
		{"SN-G2: create after a crash", contentWorld(marked(names.AnnGroupBeingCreated)), "do CreateSnapshot"},
		{"without a finalizer", contentWorld(func(s *GroupContent) { s.Content.Finalizers = nil }), "wait ContentAwaitsFinalizer"},
		{"without a uid", contentWorld(func(s *GroupContent) { s.Content.Spec.VolumeGroupSnapshotRef.UID = "" }), "wait ContentAwaitsFinalizer"},
		{"class missing", contentWorld(func(s *GroupContent) { s.Class = nil }), "do WriteContentStatus; refuse GroupContentCallFailed"},
		{"SN-P4", contentWorld(func(s *GroupContent) { s.Class.Parameters = map[string]string{names.ParameterPrefix + "x": "y"} }), "do WriteContentStatus; refuse GroupContentCallFailed"},
		{"not ready: the same call again", contentWorld(answered(false)), "do CreateSnapshot"},
		{"not ready: asked just now", contentWorld(answered(false), func(s *GroupContent) { s.Asked = groupNow }), "wait ContentPolled"},
		{"after a failure", contentWorld(func(s *GroupContent) { s.NotBefore = groupNow.Add(1) }), "wait WaitForRetry"},
		{"ready", contentWorld(answered(true)), "nothing ContentIdle"},
		{"ready, marked", contentWorld(answered(true), marked(names.AnnGroupBeingCreated)), "do ClearCreating; nothing ContentIdle"},
		{"SN-G2: exists already", contentWorld(existing), "do FindSnapshot"},
		{"SN-E4: deleted by hand", contentWorld(answered(true), contentDeleting), "wait ContentAwaitsDeletion"},
		{"SN-G5: deleted", contentWorld(answered(true), contentDeleting, marked(names.AnnGroupBeingDeleted), groupShared(Sharing{})), "do DeleteSnapshot"},
		{"SN-G5: exists already, deleted", contentWorld(existing, contentDeleting, marked(names.AnnGroupBeingDeleted), groupShared(Sharing{})), "do DeleteSnapshot"},
		{"deleted, retained", contentWorld(answered(true), contentDeleting, marked(names.AnnGroupBeingDeleted), func(s *GroupContent) {
			s.Content.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
		}), "do ReleaseContent; nothing ContentDeleting"},
		{"deleted, never asked for", contentWorld(contentDeleting, marked(names.AnnGroupBeingDeleted)), "do ReleaseContent; nothing ContentDeleting"},
		{"SN-K1: deleted while the outcome is unknown", contentWorld(contentDeleting, marked(names.AnnGroupBeingDeleted), marked(names.AnnGroupBeingCreated)), "do CreateSnapshot"},
		{"deleted, without the finalizer", contentWorld(contentDeleting, func(s *GroupContent) { s.Content.Finalizers = nil }), "nothing ContentIdle"},
	} {
		if got := verdicttest.Show(DecideContent(tc.s, groupNow)); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// SN-G5: the members' handles are those that the driver listed, else those that the content has.
func TestDeletionNamesTheMembers(t *testing.T) {
	for name, s := range map[string]GroupContent{
		"listed": contentWorld(answered(true), contentDeleting, marked(names.AnnGroupBeingDeleted), groupShared(Sharing{})),
		"given":  contentWorld(existing, contentDeleting, marked(names.AnnGroupBeingDeleted), groupShared(Sharing{})),
	} {
		todo, ok := DecideContent(s, groupNow).(contentDo)
		if !ok {
			t.Fatalf("%s: %v", name, todo)
		}
		if a, ok := todo.Actions[0].(DeleteSnapshot); !ok || len(a.Snapshots) != 1 || a.Snapshots[0] != "s-a" || a.Handle != "gh" {
			t.Errorf("%s: %+v", name, todo.Actions[0])
		}
	}
}

func TestAfterCalls(t *testing.T) {
	s := contentWorld(marked(names.AnnGroupBeingCreated))
	whole := Answer{Handle: "gh", Ready: true, Created: groupNow, Snapshots: []groupv1.VolumeSnapshotInfo{{SnapshotHandle: "s-a"}}}
	failure := func(code codes.Code) *Failure {
		return &Failure{Code: code, Message: "words"}
	}
	for _, tc := range []struct {
		name string
		got  ContentVerdict
		want string
	}{
		{"created", AfterCreate(s, whole, nil, groupNow), "do WriteContentStatus,ClearCreating; nothing ContentIdle"},
		{"created, not ready", AfterCreate(s, Answer{Handle: "gh"}, nil, groupNow), "do WriteContentStatus,ClearCreating; wait ContentPolled"},
		{"SN-H8: no group in the answer", AfterCreate(s, Answer{}, nil, groupNow), "do WriteContentStatus; refuse GroupContentCallFailed"},
		{"SN-K1", AfterCreate(s, Answer{}, failure(codes.DeadlineExceeded), groupNow), "do WriteContentStatus; refuse GroupContentCallFailed"},
		{"SN-K2", AfterCreate(s, Answer{}, failure(codes.InvalidArgument), groupNow), "do ClearCreating,WriteContentStatus; refuse GroupContentCallFailed"},
		{"found", AfterFind(s, whole, nil, groupNow), "do WriteContentStatus; nothing ContentIdle"},
		{"not found", AfterFind(contentWorld(existing), Answer{}, nil, groupNow), "do WriteContentStatus; refuse GroupContentCheckFailed"},
		{"deleted", AfterDelete(s, nil), "do ReleaseContent; nothing ContentDeleting"},
		{"not deleted", AfterDelete(s, failure(codes.Internal)), "refuse GroupContentDeleteFailed"},
	} {
		if got := verdicttest.Show(tc.got); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// SN-H7: a driver without a creation time does not make it 1970.
func TestStatusHasATime(t *testing.T) {
	if got := contentOf(contentWorld().Content).merged(Answer{Handle: "gh"}, groupNow).Created; !got.Time.Equal(groupNow) {
		t.Errorf("created %s", got)
	}
}
