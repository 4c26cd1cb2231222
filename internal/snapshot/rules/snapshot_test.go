package snapshotting

import (
	"strings"
	"testing"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/verdicttest"
)

// allRead says that all was read for which a decision may ask.
var allRead = []string{ReadContent, ReadGroup, ReadVolume, ReadNodes, ReadSources, ReadClaim}

// world is a VolumeSnapshot of a bound claim with everything in order.
func world(edits ...func(*Snapshot)) Snapshot {
	s := Snapshot{
		Inputs: Inputs{
			Settings: Settings{SourceMode: true}, Read: allRead,
			Key: types.NamespacedName{Namespace: "n", Name: "s"},
			Claim: &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "claim", UID: "pu"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			},
			Volume: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
				ClaimRef:               &corev1.ObjectReference{UID: "pu"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
			}},
		},
		Snapshot: &snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "u"},
			Spec: snapshotv1.VolumeSnapshotSpec{
				Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("claim")}, VolumeSnapshotClassName: new("c"),
			},
		},
		Class: class("d"),
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

// The response to MarkDeleting decides about the content's policy, not the stale cache.
func TestAfterMark(t *testing.T) {
	for name, tc := range map[string]struct {
		cached, now []editContent
		want        string
	}{
		"still Delete":           {[]editContent{ready}, []editContent{ready}, ""},
		"still Retain":           {[]editContent{ready, retained}, []editContent{ready, retained}, ""},
		"Retain, and Delete now": {[]editContent{ready, retained}, []editContent{ready}, "do DeleteContent; wait SnapshotDeleting"},
		"Delete, and Retain now": {[]editContent{ready}, []editContent{ready, retained}, "do ReleaseClaim,ReleaseSnapshot; nothing SnapshotDeleting"},
	} {
		s := world(finalized, withContent(tc.cached...), deleting)
		marked := content(append(tc.now, annotated(names.AnnSnapshotBeingDeleted))...)
		got := ""
		if v := AfterMark(s, marked); v != nil {
			got = verdicttest.Show(v)
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func withContent(edits ...editContent) func(*Snapshot) {
	return func(s *Snapshot) { s.Content = content(edits...) }
}

func failedBefore(s *Snapshot) {
	s.Snapshot.Status = &snapshotv1.VolumeSnapshotStatus{Error: newStatusError("no class", now)}
}

// madeAgo is a content without an answer of the driver.
func madeAgo(age time.Duration) editContent {
	return func(c *snapshotv1.VolumeSnapshotContent) {
		c.CreationTimestamp, c.Status = metav1.NewTime(now.Add(-age)), nil
	}
}

func finalized(s *Snapshot) {
	s.Snapshot.Finalizers = []string{names.FinalizerSnapshotSource, names.FinalizerSnapshotBound}
	s.Claim.Finalizers = []string{names.FinalizerSnapshotClaim}
}

// together is a process that has run for long, with all roles of the driver.
func together(s *Snapshot) {
	s.Together, s.MayHold, s.HoldsSince = "d", true, time.Hour
	s.Claim.Finalizers = []string{names.FinalizerPVCProtection}
}

func held(s *Snapshot) { s.Held = true }

func claimGoes(s *Snapshot) { s.Claim.DeletionTimestamp = new(metav1.NewTime(now)) }

// prepared has the finalizers of the VolumeSnapshot alone.
func prepared(s *Snapshot) {
	s.Snapshot.Finalizers = []string{names.FinalizerSnapshotSource, names.FinalizerSnapshotBound}
}

func deleting(s *Snapshot) { s.Snapshot.DeletionTimestamp = new(metav1.NewTime(now)) }

func bound(s *Snapshot) { viewOf(*s, now).copied(contentOf(s.Content)).SetOn(s.Snapshot) }

func preProvisioned(s *Snapshot) {
	s.Snapshot.Spec = snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: new("snapcontent-u")}}
	s.Claim = nil
}

func noRefUID(c *snapshotv1.VolumeSnapshotContent) { c.Spec.VolumeSnapshotRef.UID = "" }

func restored(s *Snapshot) {
	s.Snapshot.Finalizers = append(s.Snapshot.Finalizers, names.FinalizerRestoreSource)
}

func defaults(drivers ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Snapshot.Spec.VolumeSnapshotClassName, s.Class = nil, nil
		for _, driver := range drivers {
			one := class(driver)
			one.Annotations = map[string]string{names.AnnDefaultSnapshotClass: "true"}
			s.Classes = append(s.Classes, class(driver), one)
		}
	}
}

func TestDecideSnapshot(t *testing.T) {
	const refused = "do WriteStatus; refuse "
	for _, tc := range []struct {
		name string
		s    Snapshot
		want string
	}{
		{"gone", world(func(s *Snapshot) { s.Snapshot = nil }), "nothing SnapshotIdle"},
		{"SN-V4: gone, with a content", world(func(s *Snapshot) { s.Snapshot = nil }, withContent()), "nothing SnapshotIdle"},
		{"SN-V3: content without finalizer", world(func(s *Snapshot) {
			s.Snapshot, s.Referring = nil, []*snapshotv1.VolumeSnapshotContent{content(unfinalized)}
		}), "do ProtectContent; nothing SnapshotIdle"},
		{"SN-Q8: dynamic", world(), "do PrepareSnapshot,ProtectClaim,CreateContent; wait SnapshotAwaitsDriver"},
		{"SN-Q9: dynamic, with an error before", world(finalized, failedBefore), "do CreateContent,WriteStatus; wait SnapshotAwaitsDriver"},
		{"the driver has time to answer", world(finalized, withContent(madeAgo(time.Second))), "wait SnapshotAwaitsDriver"},
		{"the driver is slow", world(finalized, withContent(madeAgo(2*time.Second))), "do WriteStatus; wait SnapshotAwaitsDriver"},
		{"another clock", world(finalized, withContent(madeAgo(-time.Minute))), "do WriteStatus; wait SnapshotAwaitsDriver"},
		{"the driver is quick", world(finalized, withContent(ready)), "do WriteStatus,ReleaseClaim; nothing SnapshotUsable"},
		{"SN-Q8: after a crash", world(finalized), "do CreateContent; wait SnapshotAwaitsDriver"},
		{"SN-Q2: default class", world(defaults("d", "e"), finalized), "do PrepareSnapshot,CreateContent; wait SnapshotAwaitsDriver"},
		{"SN-Q2: no default class", world(defaults("e")), refused + "SnapshotClassUnclear"},
		{"SN-Q2: two default classes", world(defaults("d", "d")), refused + "SnapshotClassUnclear"},
		{"SN-Q2: class missing", world(func(s *Snapshot) { s.Class = nil }), refused + "SnapshotClassNotFound"},
		{"SN-H5: class of another driver", world(func(s *Snapshot) { s.Class = class("e") }), refused + "SnapshotContentCreateFailed"},
		{"claim missing", world(func(s *Snapshot) { s.Claim = nil }), refused + "SnapshotContentCreateFailed"},
		{"claim not bound", world(func(s *Snapshot) { s.Claim.Status.Phase = corev1.ClaimPending }), refused + "SnapshotContentCreateFailed"},
		{"claim is being deleted", world(func(s *Snapshot) { s.Claim.DeletionTimestamp = new(metav1.NewTime(now)) }), refused + "SnapshotContentCreateFailed"},
		{"volume missing", world(func(s *Snapshot) { s.Volume = nil }), refused + "SnapshotContentCreateFailed"},
		{"volume of another claim", world(func(s *Snapshot) { s.Volume.Spec.ClaimRef.UID = "x" }), refused + "SnapshotContentCreateFailed"},
		{"not a CSI volume", world(func(s *Snapshot) { s.Volume.Spec.CSI = nil }), refused + "SnapshotContentCreateFailed"},
		{"SN-P2: half a pair", world(func(s *Snapshot) { delete(s.Class.Parameters, names.ParameterSnapshotterSecretName) }), refused + "SnapshotContentCreateFailed"},
		{"SN-Q3: no source", world(func(s *Snapshot) { s.Snapshot.Spec.Source = snapshotv1.VolumeSnapshotSource{} }), refused + "SnapshotInvalid"},
		{"SN-Q7: not taken yet", world(finalized, withContent(), bound), "wait SnapshotAwaitsDriver"},
		{"SN-Q10: taken", world(finalized, withContent(), bound, withContent(taken)), "do WriteStatus; wait SnapshotAwaitsDriver"},
		{"SN-Q10: ready", world(finalized, withContent(), bound, withContent(ready)), "do WriteStatus,ReleaseClaim; nothing SnapshotUsable"},
		{"SN-N5: another needs the claim", world(finalized, withContent(), bound, withContent(ready), func(s *Snapshot) { s.Others = []*snapshotv1.VolumeSnapshot{s.Snapshot.DeepCopy()} }), "do WriteStatus; nothing SnapshotUsable"},
		{"SN-N5: released after a crash", world(finalized, withContent(ready), bound), "do ReleaseClaim; nothing SnapshotIdle"},
		{"SN-H3: ready, nothing to write", world(finalized, withContent(ready), bound, func(s *Snapshot) { s.Claim.Finalizers = nil }), "nothing SnapshotIdle"},
		{"SN-Q7: content of the other kind", world(finalized, withContent(static)), refused + "SnapshotContentUnfit"},
		{"SN-Q7: content without uid", world(finalized, withContent(noRefUID)), refused + "SnapshotContentTaken"},
		{"SN-Q4: content lost", world(finalized, withContent(ready), bound, func(s *Snapshot) { s.Content = nil }), refused + "SnapshotContentAbsent"},
		{"SN-Q4: content lost before ready", world(finalized, withContent(taken), bound, func(s *Snapshot) { s.Content = nil }), refused + "SnapshotContentAbsent"},
		{"SN-Q4: misbound", world(finalized, withContent(ready), bound, withContent(ready, noRefUID)), refused + "SnapshotNotBoundBack"},
		{"SN-Q5: content missing", world(preProvisioned), refused + "SnapshotContentAbsent"},
		{"SN-Q5: bound", world(preProvisioned, withContent(static, noRefUID)), "do PrepareSnapshot,BindContent,WriteStatus; wait SnapshotAwaitsDriver"},
		{"SN-Q5: content of a volume", world(preProvisioned, withContent()), refused + "SnapshotContentUnfit"},
		{"SN-Q5: taken by another", world(preProvisioned, withContent(static, func(c *snapshotv1.VolumeSnapshotContent) {
			c.Spec.VolumeSnapshotRef.UID = "x"
		})), refused + "SnapshotContentTaken"},
		{"FL-18: kept in memory", world(together), "do PrepareSnapshot,HoldClaim,CreateContent; wait SnapshotAwaitsDriver"},
		{"FL-18: the protection leads elsewhere", world(together, func(s *Snapshot) { s.MayHold = false }), "do PrepareSnapshot,ProtectClaim,CreateContent; wait SnapshotAwaitsDriver"},
		{"FL-18: the claim has no protection", world(together, func(s *Snapshot) { s.Claim.Finalizers = nil }), "do PrepareSnapshot,ProtectClaim,CreateContent; wait SnapshotAwaitsDriver"},
		{"FL-18: another driver's", world(together, func(s *Snapshot) { s.Together = "e" }), "do PrepareSnapshot,ProtectClaim,CreateContent; wait SnapshotAwaitsDriver"},
		{"FL-18: held, and deleted since", world(together, held, claimGoes), "do PrepareSnapshot,CreateContent; wait SnapshotAwaitsDriver"},
		{"FL-18: deleted before it is held", world(together, claimGoes), refused + "SnapshotContentCreateFailed"},
		{"FL-18: ready", world(together, held, prepared, withContent(ready)), "do WriteStatus,EndHold; nothing SnapshotUsable"},
		{"FL-18: begun by another process", world(together, prepared, withContent(), bound), "do HoldClaim; wait SnapshotAwaitsDriver"},
		{"FL-18: begun by another process, and deleted", world(together, prepared, claimGoes, withContent(), bound), "do HoldClaim; wait SnapshotAwaitsDriver"},
		{"FL-18: begun together, and taken over by a process alone", world(prepared, withContent(), bound), "do ProtectClaim; wait SnapshotAwaitsDriver"},
		{"FL-18: the same, and deleted: it can get no finalizer", world(prepared, claimGoes, withContent(), bound), "wait SnapshotAwaitsDriver"},
		{"FL-18: the claim is gone", world(prepared, withContent(), bound, func(s *Snapshot) { s.Claim = nil }), "wait SnapshotAwaitsDriver"},
		{"FL-19: deleted together", world(together, prepared, withContent(ready), deleting), "do DeleteContent; wait SnapshotDeleting"},
		{"FL-19: the content goes", world(together, prepared, withContent(ready, terminating), deleting, func(s *Snapshot) { s.Deleting = true }), "wait SnapshotDeleting"},
		{"FL-19: the content goes, after a restart", world(together, prepared, withContent(ready, terminating), deleting), "do MarkDeleting; wait SnapshotDeleting"},
		{"FL-19: retained", world(together, prepared, withContent(ready, retained), deleting), "do MarkDeleting,ReleaseSnapshot; nothing SnapshotDeleting"},
		{"FL-19: another driver's", world(together, prepared, withContent(ready), deleting, func(s *Snapshot) { s.Together = "e" }), "do MarkDeleting,DeleteContent; wait SnapshotDeleting"},
		{"FL-21: restored", world(together, prepared, withContent(ready), deleting, func(s *Snapshot) { s.Restoring = []string{"1 calls in flight"} }), "refuse SnapshotRestoring"},
		{"SN-D2: deleted, no finalizer", world(deleting), "nothing SnapshotDeleting"},
		{"SN-D1: deleted before its content", world(finalized, deleting), "do ReleaseClaim,ReleaseSnapshot; nothing SnapshotDeleting"},
		{"SN-D1: content of another", world(finalized, deleting, withContent(noRefUID)), "do ReleaseClaim,ReleaseSnapshot; nothing SnapshotDeleting"},
		{"SN-D3: restored", world(finalized, withContent(ready), deleting, func(s *Snapshot) { s.Restoring = []string{"r"} }), "refuse SnapshotRestoring"},
		{"SN-D6: deleted", world(finalized, withContent(ready), deleting), "do MarkDeleting,DeleteContent; wait SnapshotDeleting"},
		{"SN-D6: content goes", world(finalized, withContent(ready, terminating, annotated(names.AnnSnapshotBeingDeleted)), deleting), "wait SnapshotDeleting"},
		{"SN-D7, X-10: the provisioner removes its finalizer first", world(finalized, restored, deleting), "do ReleaseClaim; wait SnapshotDeleting"},
		{"SN-D7, X-10: the content does not wait for that", world(finalized, restored, withContent(ready), deleting), "do MarkDeleting,DeleteContent; wait SnapshotDeleting"},
		{"SN-D8: retained", world(finalized, withContent(ready, retained), deleting), "do MarkDeleting,ReleaseClaim,ReleaseSnapshot; nothing SnapshotDeleting"},
		{"member of a group", world(func(s *Snapshot) { s.Snapshot.Finalizers = []string{names.FinalizerSnapshotInGroup} }), "wait SnapshotInGroup"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := verdicttest.Show(DecideSnapshot(tc.s, now)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// SN-N15, SN-N10, SN-N1: the content has all that upstream's has, and its finalizer from the start.
func TestNewContent(t *testing.T) {
	todo := DecideSnapshot(world(), now).(do)
	c := todo.Actions[2].(CreateContent).Content.(*snapshotv1.VolumeSnapshotContent)
	if c.Name != "snapcontent-u" || c.Finalizers[0] != names.FinalizerSnapshotContent || *c.Spec.Source.VolumeHandle != "h" ||
		c.Spec.VolumeSnapshotRef.UID != "u" || c.Annotations[names.AnnSnapshotDeletionSecretName] != "x" {
		t.Errorf("content %+v", c)
	}
}

// What a stale cache could decide wrongly, or is needed for a new content only, is read when it matters.
func TestDecideSnapshotReads(t *testing.T) {
	member := func(s *Snapshot) {
		s.Snapshot.Finalizers, s.Groups = []string{names.FinalizerSnapshotInGroup}, true
		s.Snapshot.Status = &snapshotv1.VolumeSnapshotStatus{VolumeGroupSnapshotName: new("g")}
	}
	unread := func(s *Snapshot) { s.Read = nil }
	for _, tc := range []struct {
		name string
		s    Snapshot
		want string
	}{
		{"SN-W7: the volume of a new snapshot", world(unread, func(s *Snapshot) { s.Volume = nil }), "read [volume/pv]"},
		{"a cached volume of another claim", world(unread, func(s *Snapshot) { s.Volume.Spec.ClaimRef.UID = "x" }), "read [volume/pv]"},
		{"the cached volume of the claim", world(unread), "do PrepareSnapshot,ProtectClaim,CreateContent; wait SnapshotAwaitsDriver"},
		{"FL-18: a claim that is kept in memory, soon after the start", world(unread, together, func(s *Snapshot) { s.HoldsSince = time.Second }), "read [claim/n/claim]"},
		{"FL-18: a claim that is kept in memory, later", world(unread, together), "do PrepareSnapshot,HoldClaim,CreateContent; wait SnapshotAwaitsDriver"},
		{"SN-L1: the nodes of its volume", world(local, func(s *Snapshot) { s.Read = []string{ReadVolume} }), "read [nodes]"},
		{"not for a snapshot that has its content", world(unread, finalized, withContent(), bound), "wait SnapshotAwaitsDriver"},
		{"SN-H2: a bound content that the cache lacks", world(unread, withContent(ready), bound, func(s *Snapshot) { s.Content = nil }), "read [content/snapcontent-u]"},
		{"SN-H2: deleted, and the cache lacks a content", world(unread, finalized, deleting), "read [content/snapcontent-u]"},
		{"SN-D2: deleted, no finalizer", world(unread, deleting), "nothing SnapshotDeleting"},
		{"SN-D4: deleted, and the cache lacks the group", world(member, deleting, func(s *Snapshot) { s.Read = []string{ReadContent} }), "read [group/n/g]"},
		{"SN-D4: deleted, and the group is gone", world(member, deleting), "do ReleaseSnapshot; nothing SnapshotDeleting"},
		{"SN-D4: deleted, and the group is not", world(member, deleting, func(s *Snapshot) { s.Group = &groupv1.VolumeGroupSnapshot{} }), "refuse SnapshotGroupAlive"},
	} {
		if got := verdicttest.Show(DecideSnapshot(tc.s, now)); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	group := groupWorld(func(s *Group) { s.Read = nil })
	if got := verdicttest.Show(DecideSnapshot(group, now)); got != "read [sources]" {
		t.Errorf("SN-G1: the sources of a new group: %s", got)
	}
}

// SN-Q9: the same error is written once.
func TestErrorIsWrittenOnce(t *testing.T) {
	s := world(func(s *Snapshot) { s.Class = nil })
	first := DecideSnapshot(s, now).(do)
	first.Actions[0].(WriteStatus).Status.SetOn(s.Snapshot)
	if got := verdicttest.Show(DecideSnapshot(s, now.Add(9))); !strings.HasPrefix(got, "refuse") {
		t.Errorf("written again: %s", got)
	}
}

// SN-H19: a restore is seen in either field, and in another namespace.
func TestRestoredFrom(t *testing.T) {
	group := ptr.To(names.SnapshotGroup)
	for want, spec := range map[string]corev1.PersistentVolumeClaimSpec{
		"n/a": {DataSource: &corev1.TypedLocalObjectReference{APIGroup: group, Kind: "VolumeSnapshot", Name: "a"}},
		"n/b": {DataSourceRef: &corev1.TypedObjectReference{APIGroup: group, Kind: "VolumeSnapshot", Name: "b"}},
		"m/c": {DataSourceRef: &corev1.TypedObjectReference{APIGroup: group, Kind: "VolumeSnapshot", Name: "c", Namespace: new("m")}},
		"/":   {DataSource: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "d"}},
	} {
		got, _ := RestoredFrom(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}, Spec: spec})
		if got.Namespace+"/"+got.Name != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
