package kube

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// stored is the object of a lock in an API server.
type stored struct {
	record  *resourcelock.LeaderElectionRecord
	version int
}

// memoryLock is one contender's client of a stored lock, with the API server's rules about
// resourceVersions.
type memoryLock struct {
	object   *stored
	identity string
	read     int
}

func (l *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.object.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{}, "lock")
	}
	l.read = l.object.version
	record := *l.object.record
	raw, err := json.Marshal(record)
	return &record, append(raw, strconv.Itoa(l.object.version)...), err
}

func (l *memoryLock) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.object.record != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, "lock")
	}
	l.object.record = &record
	l.object.version++
	l.read = l.object.version
	return nil
}

func (l *memoryLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.read != l.object.version {
		return apierrors.NewConflict(schema.GroupResource{}, "lock", nil)
	}
	l.object.record = &record
	l.object.version++
	l.read = l.object.version
	return nil
}

func (l *memoryLock) RecordEvent(string) {}
func (l *memoryLock) Identity() string   { return l.identity }
func (l *memoryLock) Describe() string   { return "lock" }

func heldBy(holder string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15}
}

func contender(identity string, first, second *stored) *BothLocks {
	return &BothLocks{First: &memoryLock{object: first, identity: identity}, Second: &memoryLock{object: second, identity: identity}}
}

// O-3: the holder of one lock keeps every other process from both.
func TestBothLocksSeeEveryHolder(t *testing.T) {
	held := func(holder string) *stored { r := heldBy(holder); return &stored{record: &r, version: 1} }
	none := func() *stored { return &stored{} }
	for _, tc := range []struct {
		name          string
		first, second *stored
		holder        string // "-" for no lock at all
	}{
		{"never held", none(), none(), "-"},
		{"v1 leads", held("v1"), none(), "v1"},
		{"v6 leads", none(), held("v6"), "v6"},
		{"v6 leads, v1 released", held(""), held("v6"), "v6"},
		{"v1 leads, v6 released", held("v1"), held(""), "v1"},
		{"one of ours leads", held("a"), held("a"), "a"},
		{"they disagree", held("v1"), held("v6"), unknownLeader},
		{"both released", held(""), held(""), ""},
	} {
		got, _, err := contender("me", tc.first, tc.second).Get(t.Context())
		switch {
		case tc.holder == "-":
			if !apierrors.IsNotFound(err) {
				t.Errorf("%s: %v", tc.name, err)
			}
		case err != nil || got.HolderIdentity != tc.holder:
			t.Errorf("%s: %+v, %v", tc.name, got, err)
		}
	}
}

// While the locks have different holders, a renewal of either one changes the raw bytes, so no
// process takes over while one of them is renewed.
func TestBothLocksChangeWithEither(t *testing.T) {
	first, second := &stored{}, &stored{}
	v1, v6 := &memoryLock{object: first, identity: "v1"}, &memoryLock{object: second, identity: "v6"}
	_ = v1.Create(t.Context(), heldBy("v1"))
	_ = v6.Create(t.Context(), heldBy("v6"))
	me := contender("me", first, second)
	seen := map[string]bool{}
	for _, renew := range []func(){
		func() {}, func() { _ = v1.Update(t.Context(), heldBy("v1")) }, func() { _ = v6.Update(t.Context(), heldBy("v6")) },
	} {
		renew()
		_, raw, err := me.Get(t.Context())
		if err != nil || seen[string(raw)] {
			t.Errorf("%v: not seen: %s", err, raw)
		}
		seen[string(raw)] = true
	}
}

// client-go's MultiLock fails here: another process acquires the second lock between our read and
// our write.
func TestBothLocksNeverTakeFromAHolder(t *testing.T) {
	first, second := &stored{}, &stored{}
	v6 := &memoryLock{object: second, identity: "v6"}
	_ = v6.Create(t.Context(), heldBy("")) // released
	me := contender("me", first, second)
	if _, _, err := me.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := v6.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := v6.Update(t.Context(), heldBy("v6")); err != nil {
		t.Fatal(err)
	}
	if err := me.Update(t.Context(), heldBy("me")); !apierrors.IsConflict(err) {
		t.Errorf("took the lock from its holder: %v", err)
	}
	if got, _, _ := me.Get(t.Context()); got.HolderIdentity == "me" {
		t.Error("thinks that it leads")
	}
	if second.record.HolderIdentity != "v6" {
		t.Errorf("the second lock is held by %q", second.record.HolderIdentity)
	}
}

// A process without competitors acquires both locks and renews both.
func TestBothLocksAreHeldTogether(t *testing.T) {
	first, second := &stored{}, &stored{}
	me := contender("me", first, second)
	if _, _, err := me.Get(t.Context()); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if err := me.Create(t.Context(), heldBy("me")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := me.Update(t.Context(), heldBy("me")); err != nil {
			t.Fatal(err)
		}
	}
	if first.record.HolderIdentity != "me" || second.record.HolderIdentity != "me" || first.version != 4 || second.version != 4 {
		t.Errorf("%+v %+v", first, second)
	}
}
