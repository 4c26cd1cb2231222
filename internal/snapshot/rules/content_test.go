package snapshotting

import (
	"fmt"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/verdicttest"
)

var now = time.Unix(1000, 0)

type editContent func(*snapshotv1.VolumeSnapshotContent)

func content(edits ...editContent) *snapshotv1.VolumeSnapshotContent {
	c := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{
			Name: "snapcontent-u", UID: "cu", Finalizers: []string{names.FinalizerSnapshotContent}, CreationTimestamp: metav1.NewTime(now.Add(-time.Minute)),
			Annotations: map[string]string{},
		},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "n", Name: "s", UID: "u"}, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			Driver: "d", VolumeSnapshotClassName: new("c"), Source: snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new("h")},
		},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func annotated(key string) editContent {
	return func(c *snapshotv1.VolumeSnapshotContent) { c.Annotations[key] = "yes" }
}

func terminating(c *snapshotv1.VolumeSnapshotContent) {
	c.DeletionTimestamp = new(metav1.NewTime(now))
}

func taken(c *snapshotv1.VolumeSnapshotContent) {
	c.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: new("snap"), ReadyToUse: new(false), CreationTime: new(int64(5))}
}

func ready(c *snapshotv1.VolumeSnapshotContent) {
	taken(c)
	c.Status.ReadyToUse = new(true)
}

func static(c *snapshotv1.VolumeSnapshotContent) {
	c.Spec.Source = snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new("snap")}
	c.Spec.VolumeSnapshotClassName = nil
}

func unfinalized(c *snapshotv1.VolumeSnapshotContent) { c.Finalizers = nil }
func retained(c *snapshotv1.VolumeSnapshotContent) {
	c.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
}

func class(driver string) *snapshotv1.VolumeSnapshotClass {
	return &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, Driver: driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		Parameters: map[string]string{"a": "b", names.ParameterSnapshotterSecretName: "x", names.ParameterSnapshotterSecretNamespace: "y"},
	}
}

func unbound(c *snapshotv1.VolumeSnapshotContent) { c.Spec.VolumeSnapshotRef.UID = "" }

func sharingRead(s *ContentSnapshot) { s.Sharing = &Sharing{} }

// sameHandle has another content with the handle be known.
func sameHandle(edits ...editContent) func(*ContentSnapshot) {
	return func(s *ContentSnapshot) {
		other := content(edits...)
		other.Name, other.UID = "other", "other"
		s.Sharing = &Sharing{Contents: []*snapshotv1.VolumeSnapshotContent{other}}
	}
}

// journaled has calls be recorded in the journal, and recorded has one there.
func journaled(s *ContentSnapshot) { s.Journal = true }

func recorded(s *ContentSnapshot) { s.Journal, s.Recorded = true, true }

// FL-18, FL-30: what is written down before a call, and what ends it.
func TestJournalOfCalls(t *testing.T) {
	state := func(c *snapshotv1.VolumeSnapshotContent, edits ...func(*ContentSnapshot)) ContentSnapshot {
		s := ContentSnapshot{ContentSettings: ContentSettings{Driver: "d", Naming: Naming{"snapshot", -1}}, Content: c, Class: class("d")}
		for _, edit := range edits {
			edit(&s)
		}
		return s
	}
	for name, tc := range map[string]struct {
		s    ContentSnapshot
		want string // annotation and entry
	}{
		"alone":                          {state(content()), names.AnnSnapshotBeingCreated + " false"},
		"in the journal":                 {state(content(), journaled), " true"},
		"marked by another process":      {state(content(annotated(names.AnnSnapshotBeingCreated)), journaled), " false"},
		"the handle is known":            {state(content(taken), journaled), " false"},
		"the handle is known, and alone": {state(content(taken)), names.AnnSnapshotBeingCreated + " false"},
	} {
		call := DecideContent(tc.s, now).(contentDo).Actions[0].(CreateSnapshot)
		if got := fmt.Sprint(call.Mark, " ", call.Record); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	final, unknown := &Failure{Code: codes.Internal}, &Failure{Code: codes.DeadlineExceeded}
	done := Answer{Handle: "h", Ready: true}
	marked := annotated(names.AnnSnapshotBeingCreated)
	for name, tc := range map[string]struct {
		s       ContentSnapshot
		answer  Answer
		failure *Failure
		want    string
	}{
		"ready":                    {state(content(), recorded), done, nil, "do WriteContentStatus,ResolveCall; nothing ContentIdle"},
		"ready, and alone":         {state(content()), done, nil, "do WriteContentStatus,ClearCreating; nothing ContentIdle"},
		"ready, and marked":        {state(content(marked), journaled), done, nil, "do WriteContentStatus,ClearCreating; nothing ContentIdle"},
		"ready, after a known one": {state(content(taken), journaled), done, nil, "do WriteContentStatus; nothing ContentIdle"},
		"processed":                {state(content(), recorded), Answer{Handle: "h"}, nil, "do WriteContentStatus,ResolveCall; wait ContentPolled"},
		"processed again":          {state(content(taken), journaled), Answer{Handle: "snap"}, nil, "do ; wait ContentPolled"},
		"final":                    {state(content(), recorded), Answer{}, final, "do ResolveCall,WriteContentStatus; refuse ContentCreateFailed"},
		"final, and marked":        {state(content(marked), journaled), Answer{}, final, "do ClearCreating,WriteContentStatus; refuse ContentCreateFailed"},
		"unknown":                  {state(content(), recorded), Answer{}, unknown, "do MarkCreating,WriteContentStatus; refuse ContentCreateFailed"},
		"unknown, and marked":      {state(content(marked), journaled), Answer{}, unknown, "do WriteContentStatus; refuse ContentCreateFailed"},
		"not sent":                 {state(content(), journaled), Answer{}, &Failure{NoAnswer: true}, "do WriteContentStatus; refuse ContentCreateFailed"},
		"without an id: not final": {state(content(), recorded), Answer{}, nil, "do MarkCreating,WriteContentStatus; refuse ContentCreateFailed"},
	} {
		if got := verdicttest.Show(AfterCreate(tc.s, tc.answer, tc.failure, now)); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestDecideContent(t *testing.T) {
	for _, tc := range []struct {
		name    string
		content *snapshotv1.VolumeSnapshotContent
		edit    func(*ContentSnapshot)
		want    string
	}{
		{"gone", nil, nil, "nothing ContentIdle"},
		{"SN-A2: of another driver", content(func(c *snapshotv1.VolumeSnapshotContent) { c.Spec.Driver = "e" }), nil, "nothing ContentIdle"},
		{"SN-A2: class of another driver", content(), func(s *ContentSnapshot) { s.Class = class("e") }, "nothing ContentIdle"},
		{"SN-A5: created", content(), nil, "do CreateSnapshot"},
		{"SN-A5: created again after a crash", content(annotated(names.AnnSnapshotBeingCreated)), nil, "do CreateSnapshot"},
		{"no call before the finalizer", content(unfinalized), nil, "wait ContentAwaitsFinalizer"},
		{"SN-V2: no call before the uid", content(func(c *snapshotv1.VolumeSnapshotContent) { c.Spec.VolumeSnapshotRef.UID = "" }), nil, "wait ContentAwaitsFinalizer"},
		{"class missing", content(), func(s *ContentSnapshot) { s.Class = nil }, "do WriteContentStatus; refuse ContentCreateFailed"},
		{"SN-P4: reserved key", content(), func(s *ContentSnapshot) { s.Class.Parameters["csi.storage.k8s.io/x"] = "" }, "do WriteContentStatus; refuse ContentCreateFailed"},
		{"backoff", content(), func(s *ContentSnapshot) { s.NotBefore = now.Add(1) }, "wait WaitForRetry"},
		{"SN-A8: polled", content(taken), nil, "do CreateSnapshot"},
		{"SN-H17: polled later", content(taken), func(s *ContentSnapshot) { s.Asked = now }, "wait ContentPolled"},
		{"ready", content(ready), nil, "nothing ContentIdle"},
		{"SN-A4: ready, with the annotation of a crash", content(ready, annotated(names.AnnSnapshotBeingCreated)), nil, "do ClearCreating; nothing ContentIdle"},
		{"SN-A9: pre-provisioned", content(static), nil, "do FindSnapshot"},
		{"SN-A10: member", content(annotated(names.AnnGroupSnapshotHandle)), nil, "nothing ContentIdle"},
		{"SN-A9: member that is not ready", content(taken, annotated(names.AnnGroupSnapshotHandle)), nil, "do FindSnapshot"},
		{"SN-A9: member without a handle", content(annotated(names.AnnGroupSnapshotHandle), func(c *snapshotv1.VolumeSnapshotContent) {
			c.Status = &snapshotv1.VolumeSnapshotContentStatus{}
		}), nil, "nothing ContentIdle"},
		{"SN-E3: member deleted", content(ready, terminating, annotated(names.AnnGroupSnapshotHandle), annotated(names.AnnSnapshotBeingDeleted)), nil, "do ReleaseContent; nothing ContentDeleting"},
		{"FL-30: recorded before the call", content(), journaled, "do CreateSnapshot"},
		{"an entry of an earlier call", content(), recorded, "do MarkCreating; wait ContentCreating"},
		{"an entry, and the backoff", content(), func(s *ContentSnapshot) { recorded(s); s.NotBefore = now.Add(1) }, "do MarkCreating; wait ContentCreating"},
		{"an entry of a call with a known outcome", content(ready), recorded, "do ResolveCall; wait ContentCreating"},
		{"an entry of a content that is being deleted", content(terminating, annotated(names.AnnSnapshotBeingDeleted)), recorded, "do MarkCreating; wait ContentCreating"},
		{"an entry of a content that is free to go", content(terminating, unfinalized), recorded, "nothing ContentIdle"},
		{"no source", content(func(c *snapshotv1.VolumeSnapshotContent) { c.Spec.Source.VolumeHandle = nil }), nil, "refuse ContentCheckFailed"},
		{"SN-E1: deleted by hand", content(ready, terminating), nil, "wait ContentAwaitsDeletion"},
		{"SN-E2: deleted", content(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), sharingRead, "do DeleteSnapshot"},
		{"SN-E3: retained", content(ready, retained, terminating, annotated(names.AnnSnapshotBeingDeleted)), nil, "do ReleaseContent; nothing ContentDeleting"},
		{"SN-E3: never taken", content(terminating, annotated(names.AnnSnapshotBeingDeleted)), nil, "do ReleaseContent; nothing ContentDeleting"},
		{"SN-E3: pre-provisioned, never confirmed", content(static, terminating, annotated(names.AnnSnapshotBeingDeleted)), sharingRead, "do DeleteSnapshot"},
		{"SN-E1: pre-provisioned, never bound", content(static, ready, terminating, func(c *snapshotv1.VolumeSnapshotContent) { c.Spec.VolumeSnapshotRef.UID = "" }), sharingRead, "do DeleteSnapshot"},
		{"SN-E1: outcome unknown", content(terminating, annotated(names.AnnSnapshotBeingCreated), annotated(names.AnnSnapshotBeingDeleted)), nil, "do CreateSnapshot"},
		{"taken, crash before the annotation went", content(taken, terminating, annotated(names.AnnSnapshotBeingCreated), annotated(names.AnnSnapshotBeingDeleted)), sharingRead, "do DeleteSnapshot"},
		{"D-37: the contents with the handle are listed first", content(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), nil, "read [sharing/snap]"},
		{"D-37: another content needs the snapshot", content(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), sameHandle(ready), "do ReleaseContent; nothing ContentDeleting"},
		{"D-37: a retained one as well", content(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), sameHandle(static, retained), "do ReleaseContent; nothing ContentDeleting"},
		{"D-37: the other one is being deleted too", content(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), sameHandle(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), "do DeleteSnapshot"},
		{"D-37, SN-E4: the other one was deleted by hand, and its VolumeSnapshot needs it", content(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), sameHandle(ready, terminating), "do ReleaseContent; nothing ContentDeleting"},
		{"D-37: the other one was never bound, and is being deleted", content(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), sameHandle(static, terminating, unbound), "do DeleteSnapshot"},
		{"D-37: the snapshot belongs to a group, which deletes it", content(static, terminating, annotated(names.AnnSnapshotBeingDeleted)), sameHandle(ready, terminating, annotated(names.AnnGroupSnapshotHandle), annotated(names.AnnSnapshotBeingDeleted)), "do ReleaseContent; nothing ContentDeleting"},
		{"SN-A2: deleted, and its class was made anew for another driver", content(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), func(s *ContentSnapshot) { sharingRead(s); s.Class = class("e") }, "do DeleteSnapshot"},
		{"SN-E1: outcome unknown, and the class is of another driver now", content(terminating, annotated(names.AnnSnapshotBeingCreated), annotated(names.AnnSnapshotBeingDeleted)), func(s *ContentSnapshot) { s.Class = class("e") }, "do WriteContentStatus; refuse ContentCreateFailed"},
		{"deleted, without the finalizer", content(ready, terminating, unfinalized), nil, "nothing ContentIdle"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := ContentSnapshot{
				ContentSettings: ContentSettings{Driver: "d", Naming: Naming{"snapshot", -1}, Lists: true}, Content: tc.content, Class: class("d"),
			}
			if tc.edit != nil {
				tc.edit(&s)
			}
			if got := verdicttest.Show(DecideContent(s, now)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// SN-F4, SN-P3, SN-P4, SN-N10.
func TestCreateRequest(t *testing.T) {
	c := content(func(c *snapshotv1.VolumeSnapshotContent) {
		c.Annotations[names.AnnSnapshotDeletionSecretName], c.Annotations[names.AnnSnapshotDeletionSecretNamespace] = "x", "y"
	})
	s := ContentSnapshot{ContentSettings: ContentSettings{Driver: "d", Naming: Naming{"snapshot", -1}, ExtraMetadata: true}, Content: c, Class: class("d")}
	todo, ok := DecideContent(s, now).(contentDo)
	if !ok {
		t.Fatal("does nothing")
	}
	got := fmt.Sprint(todo.Actions[0])
	want := fmt.Sprint(CreateSnapshot{"snapshot-u", []string{"h"}, map[string]string{
		"a": "b", names.ParameterSnapshotName: "s", names.ParameterSnapshotNamespace: "n", names.ParameterSnapshotContentName: "snapcontent-u",
	}, types.NamespacedName{Namespace: "y", Name: "x"}, names.AnnSnapshotBeingCreated, false})
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if short := (Naming{"p", 4}).Name("ab-cdef"); short != "p-abcd" {
		t.Errorf("SN-F4: %s", short)
	}
	if short := (Naming{"p", 40}).Name("ab"); short != "p-ab" {
		t.Errorf("SN-H8: %s", short)
	}
}

// SN-K1, SN-K2: after a code that leaves the outcome open the annotation stays.
func TestAfterCreate(t *testing.T) {
	all := Answer{Handle: "snap", Ready: true, Size: 7, Created: time.Unix(9, 0)}
	for _, tc := range []struct {
		name    string
		answer  Answer
		failure *Failure
		content *snapshotv1.VolumeSnapshotContent
		want    string
	}{
		{"ready", all, nil, content(), "do WriteContentStatus,ClearCreating; nothing ContentIdle"},
		{"not ready", Answer{Handle: "snap"}, nil, content(), "do WriteContentStatus,ClearCreating; wait ContentPolled"},
		{"still not ready", Answer{Handle: "snap"}, nil, content(taken, annotated(names.AnnSnapshotBeingCreated)), "do ClearCreating; wait ContentPolled"},
		{"SN-K1", Answer{}, &Failure{Code: codes.DeadlineExceeded}, content(), "do WriteContentStatus; refuse ContentCreateFailed"},
		{"SN-K2", Answer{}, &Failure{Code: codes.Internal}, content(), "do ClearCreating,WriteContentStatus; refuse ContentCreateFailed"},
		{"SN-H8: no snapshot in the answer", Answer{}, nil, content(), "do WriteContentStatus; refuse ContentCreateFailed"},
		{"not asked", Answer{}, &Failure{NoAnswer: true}, content(), "do WriteContentStatus; refuse ContentCreateFailed"},
	} {
		s := ContentSnapshot{Content: tc.content}
		if got := verdicttest.Show(AfterCreate(s, tc.answer, tc.failure, now)); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// SN-H7, SN-A11, SN-A12.
func TestContentStatus(t *testing.T) {
	merged := func(c *snapshotv1.VolumeSnapshotContent, a Answer) *snapshotv1.VolumeSnapshotContentStatus {
		contentOf(c).merged(a, now).SetOn(c)
		return c.Status
	}
	first := merged(content(), Answer{Handle: "snap", Size: -1})
	if *first.CreationTime != now.UnixNano() || first.RestoreSize != nil || *first.ReadyToUse {
		t.Errorf("SN-H7: %+v", first)
	}
	c := content(taken)
	again := merged(c.DeepCopy(), Answer{Handle: "other", Ready: true, Size: 3, Created: now})
	if *again.SnapshotHandle != "snap" || *again.CreationTime != 5 || *again.RestoreSize != 3 || !*again.ReadyToUse {
		t.Errorf("SN-A12: %+v", again)
	}
	failed := AfterCreate(ContentSnapshot{Content: c}, Answer{}, &Failure{Code: codes.Internal, Message: "m"}, now).(contentDo)
	failed.Actions[1].(WriteContentStatus).Status.SetOn(c)
	if got := verdicttest.Show(AfterCreate(ContentSnapshot{Content: c}, Answer{}, &Failure{Code: codes.Internal, Message: "m"}, now)); got != "do ClearCreating; refuse ContentCreateFailed" {
		t.Errorf("SN-A6: the same message is written again: %s", got)
	}
}

func TestAfterFindAndDelete(t *testing.T) {
	s := ContentSnapshot{Content: content(static)}
	for want, got := range map[string]ContentVerdict{
		"do WriteContentStatus; nothing ContentIdle":       AfterFind(s, Answer{Handle: "snap", Ready: true}, nil, now),
		"do WriteContentStatus; wait ContentPolled":        AfterFind(s, Answer{Handle: "snap"}, nil, now),
		"do WriteContentStatus; refuse ContentCheckFailed": AfterFind(s, Answer{}, nil, now),
		"do ReleaseContent; nothing ContentDeleting":       AfterDelete(s, nil),
		"refuse ContentDeleteFailed":                       AfterDelete(s, &Failure{Code: codes.NotFound}),
	} {
		if verdicttest.Show(got) != want {
			t.Errorf("got %q, want %q", verdicttest.Show(got), want)
		}
	}
}
