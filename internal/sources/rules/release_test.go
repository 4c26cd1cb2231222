package source

import (
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

func request(snapshot, volume string) Request {
	r := Request{Volume: "pvc-u", Claim: types.NamespacedName{Namespace: "crew", Name: "copy"}}
	if snapshot != "" {
		r.Content = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot},
		}}
		return r
	}
	r.Content = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: volume},
	}}
	return r
}

// A source that is being deleted and waits for a user is said on it, with the way out. One that is not
// is in its normal state.
func TestDeletionOfASourceInUse(t *testing.T) {
	withSecret := request("", "h")
	withSecret.Secret = types.NamespacedName{Namespace: "vault", Name: "create"}
	for name, tc := range map[string]struct {
		users Users
		says  []string
	}{
		"a claim": {Users{Claims: []string{"crew/second"}}, []string{"kept for claim crew/second"}},
		"a call whose outcome is not known, with a secret": {Users{Requests: []Request{withSecret}}, []string{
			"volume pvc-u for claim crew/copy", "Secret vault/create: if that is gone, create it again", "remove the finalizer " + names.FinalizerCloneSource,
		}},
		"without a secret": {Users{Requests: []Request{request("", "h")}}, []string{"repeats the call", "remove the finalizer"}},
	} {
		h := Held{State: cloned(), IsLive: true, Driver: driver, Users: tc.users}
		h.Claim.Finalizers = []string{names.FinalizerCloneSource}
		if got := Release(h, time.Unix(1000, 0)).Because().Reason; got != verdict.SourceInUse || verdict.WaitsLong(got) == "" {
			t.Errorf("%s, not being deleted: %s", name, got)
		}
		h.Claim.DeletionTimestamp = new(metav1.Now())
		got := Release(h, time.Unix(1000, 0)).Because()
		if got.Reason != verdict.SourceDeletionAwaits || verdict.WaitsLong(got.Reason) != "" {
			t.Errorf("%s: %s", name, got.Reason)
		}
		for _, part := range tc.says {
			if !strings.Contains(got.Text(), part) {
				t.Errorf("%s: %q is not in %q", name, part, got.Text())
			}
		}
	}
}

// with an instance for each node, the request of an instance on another node blocks the
// removal of the finalizer, and the source is requeued.
func TestRequestsOfOtherNodes(t *testing.T) {
	now := time.Unix(1000, 0)
	h := Held{State: restored(), IsLive: true, Driver: driver, PerNode: true}
	h.Snapshot.Finalizers = []string{names.FinalizerRestoreSource}
	if got := asked(Release(h, now)); got != ReadOthers {
		t.Errorf("the requests of other nodes are not read: %q", got)
	}
	h.HasOthers, h.Others = true, []Request{request("other", "")}
	if got, ok := Release(h, now).(verdict.Do[Action]); !ok {
		t.Errorf("no request of another node has the source: %+v", got)
	}
	h.Others = []Request{request("s", "")}
	got, ok := Release(h, now).(verdict.Wait[Action])
	if !ok || got.Reason != verdict.SourceInUse || !got.Until.After(now) {
		t.Errorf("%+v", got)
	}
	if len(h.Users.Requests) > 0 {
		t.Error("the snapshot is changed")
	}
}

// asked returns what a decision asks for; empty for nothing.
func asked(v Verdict) string {
	if read, ok := v.(verdict.Read[Action]); ok {
		return read.Refs[0].What
	}
	return ""
}

// A source in use is not read, another one is decided on by a live read alone.
func TestSourceIsReadLive(t *testing.T) {
	now := time.Unix(1000, 0)
	h := Held{State: cloned(), Driver: driver}
	h.Claim.Finalizers = nil
	if got := asked(Release(h, now)); got != ReadSource {
		t.Errorf("not in use: %q", got)
	}
	h.Users.Calls = 1
	if got := asked(Release(h, now)); got != "" {
		t.Errorf("in use: %q", got)
	}
}

// What this process wrote when it added the finalizer is enough to remove it. It is not enough to say that
// the source is kept: the source may be going by now.
func TestProtectedSourceIsNotRead(t *testing.T) {
	now := time.Unix(1000, 0)
	h := Held{State: restored(), IsKnown: true, Driver: driver}
	h.Snapshot.Finalizers = []string{names.FinalizerRestoreSource}
	if _, removes := Release(h, now).(verdict.Do[Action]); !removes {
		t.Errorf("not in use: %+v", Release(h, now))
	}
	h.Users.Requests = []Request{request("s", "")}
	if got := asked(Release(h, now)); got != ReadSource {
		t.Errorf("in use: %q", got)
	}
}

// A source is the protected one only if it is the same object, and no newer version lacks the finalizer.
func TestIsSame(t *testing.T) {
	at := func(uid types.UID, version string, finalizers ...string) State {
		s := restored()
		s.Snapshot.UID, s.Snapshot.ResourceVersion, s.Snapshot.Finalizers = uid, version, finalizers
		return s
	}
	const f = names.FinalizerRestoreSource
	for name, tc := range map[string]struct {
		protected, now State
		want           bool
	}{
		"unknown":             {State{}, at("u", "5", f), false},
		"as it was":           {at("u", "5", f), at("u", "5", f), true},
		"stale":               {at("u", "5", f), at("u", "4"), true},
		"newer":               {at("u", "5", f), at("u", "6", f), true},
		"newer, and stripped": {at("u", "5", f), at("u", "6"), false},
		"another":             {at("u", "5", f), at("v", "6", f), false},
	} {
		if got := IsSame(tc.protected, tc.now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A call that has begun since the users were counted may use the source, or may have left a request.
func TestUsersAreReadAgainBeforeTheWrite(t *testing.T) {
	h := Held{State: cloned(), IsLive: true, Driver: driver, Users: Users{Begun: 3}}
	if got := BeforeUnprotect(h, 3); got != nil {
		t.Errorf("no call has begun: %+v", got)
	}
	if got := asked(BeforeUnprotect(h, 4)); got != ReadUsers {
		t.Errorf("a call has begun: %q", got)
	}
}

func TestRelease(t *testing.T) {
	for _, tc := range []struct {
		name    string
		restore func(*Held) // nil where the row is about clones only
		clone   func(*Held)
		want    verdict.Reason
	}{
		{"X-6 X-11 no user", func(*Held) {}, func(*Held) {}, verdict.SourceReleased},
		{
			"X-3 being deleted", func(h *Held) { h.Snapshot.DeletionTimestamp = new(metav1.Now()) },
			func(h *Held) { h.Claim.DeletionTimestamp = new(metav1.Now()) }, verdict.SourceReleased,
		},
		{
			"X-13 another claim waits", func(h *Held) { h.Users.Claims = []string{"crew/second"} },
			func(h *Held) { h.Users.Claims = []string{"crew/second"} }, verdict.SourceInUse,
		},
		{"a call is in flight", func(h *Held) { h.Users.Calls = 1 }, func(h *Held) { h.Users.Calls = 1 }, verdict.SourceInUse},
		{
			"X-14 the claim of a call is gone", func(h *Held) { h.Users.Requests = []Request{request("s", "")} },
			func(h *Held) { h.Users.Requests = []Request{request("", "h")} }, verdict.SourceInUse,
		},
		{"requests for others", func(h *Held) {
			h.Users.Requests = []Request{request("t", ""), request("", "s"), {}}
		}, func(h *Held) {
			h.Users.Requests = []Request{request("h", ""), request("", "i"), {}}
		}, verdict.SourceReleased},
		{"no finalizer", func(h *Held) { h.Snapshot.Finalizers = nil }, func(h *Held) { h.Claim.Finalizers = nil }, verdict.SourceUnprotected},
		{"gone", func(h *Held) { h.Snapshot = nil }, func(h *Held) { h.Claim = nil }, verdict.SourceUnprotected},
		{"X-16 another driver", func(h *Held) { h.Content.Spec.Driver = "b" }, func(h *Held) { h.Volume.Spec.CSI.Driver = "b" }, verdict.SourceNotOurs},
		{"no driver's: not CSI", nil, func(h *Held) { h.Volume.Spec.CSI = nil }, verdict.SourceNotOurs},
		{"nothing tells whose", func(h *Held) { h.Content = nil }, func(h *Held) { h.Volume = nil }, verdict.SourceNotOurs},
		{"may not be read", func(h *Held) { h.Snapshot, h.Unread = nil, Unread{"volumesnapshots", true} }, nil, verdict.SourceForbidden},
		{"content gone, being deleted", func(h *Held) {
			h.Content = nil
			h.Snapshot.DeletionTimestamp = new(metav1.Now())
		}, nil, verdict.SourceReleased},
		{"never bound", nil, func(h *Held) { h.Claim.Spec.VolumeName, h.Volume = "", nil }, verdict.SourceNotOurs},
		{"never bound, being deleted", nil, func(h *Held) {
			h.Claim.Spec.VolumeName, h.Volume = "", nil
			h.Claim.DeletionTimestamp = new(metav1.Now())
		}, verdict.SourceReleased},
		{"volume gone, ours by annotation", nil, func(h *Held) {
			h.Volume = nil
			h.Claim.Annotations = map[string]string{names.AnnStorageProvisioner: driver}
		}, verdict.SourceReleased},
		{"volume gone, migrated to ours", nil, func(h *Held) {
			h.Volume = nil
			h.Claim.Annotations = map[string]string{names.AnnStorageProvisioner: "kubernetes.io/x", names.AnnMigratedTo: driver}
		}, verdict.SourceReleased},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.restore != nil {
				h := Held{State: restored(), IsLive: true, Driver: driver}
				h.Snapshot.Finalizers = []string{names.FinalizerSnapshotSource, names.FinalizerRestoreSource}
				tc.restore(&h)
				checkRelease(t, "restore", h, tc.want)
			}
			if tc.clone != nil {
				h := Held{State: cloned(), IsLive: true, Driver: driver}
				h.Claim.Finalizers = []string{names.FinalizerPVCProtection, names.FinalizerCloneSource}
				tc.clone(&h)
				checkRelease(t, "clone", h, tc.want)
			}
		})
	}
}

func checkRelease(t *testing.T, kind string, h Held, want verdict.Reason) {
	t.Helper()
	v := Release(h, time.Unix(1000, 0))
	if v.Because().Reason != want {
		t.Errorf("%s: %s, want %s", kind, v.Because().Reason, want)
	}
	if _, removes := v.(verdict.Do[Action]); removes != (want == verdict.SourceReleased) {
		t.Errorf("%s: %T", kind, v)
	}
}

// A claim that is bound or being deleted does not wait for a volume.
func TestWaits(t *testing.T) {
	c := claim(cloneRef)
	if !Waits(c) {
		t.Error("a new claim does not wait")
	}
	c.DeletionTimestamp = new(metav1.Now())
	if Waits(c) {
		t.Error("a terminating claim waits")
	}
	if c = cloned().Claim; Waits(c) {
		t.Error("a bound claim waits")
	}
}
