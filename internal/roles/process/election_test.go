package process

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// LK-1, LK-3.
func TestLeaseName(t *testing.T) {
	for driver, want := range map[string]string{
		"rbd.csi.ceph.com": "rbd-csi-ceph-com", // O-3
		"a/b":              "a-b",
		"disk.CSI.example": "xdisk-csi-example",
		"odd.":             "xodd-x",
	} {
		if got := DriverLeaseName(driver); got != want {
			t.Errorf("leaseName(%q) = %q, want %q", driver, got, want)
		}
	}
}

// LK-2, H-32: two processes on one host have two identities, and each keeps its own.
func TestElectionIdentity(t *testing.T) {
	a, b := &Election{Holder: NewIdentity()}, &Election{Holder: NewIdentity()}
	if a.Identity() == b.Identity() || a.Identity() == "" {
		t.Error("identities collide")
	}
}

// F-44, EN-5.
func TestElectionNamespace(t *testing.T) {
	e := &Election{}
	t.Setenv("POD_NAMESPACE", "pod")
	if got := e.LeaseNamespace(); got != "pod" {
		t.Errorf("namespace %q", got)
	}
	e.Namespace = "flag"
	if got := e.LeaseNamespace(); got != "flag" {
		t.Errorf("namespace %q", got)
	}
}

// scriptedLock returns the errors that a test sets.
type scriptedLock struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	err    error
}

func (l *scriptedLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &l.record, nil, nil
}

func (l *scriptedLock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

func (l *scriptedLock) Identity() string { return "me" }

func (l *scriptedLock) Describe() string { return "ns/lease" }

// HT-2: only a leader whose renewal is overdue by more than 20 s is unhealthy. ME-7: a renewal that
// has to read the lease again is counted.
func TestWatchedLock(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	script := &scriptedLock{}
	lock := newElectionLock(script, 15*time.Second)
	lock.clock = at
	slow := 0
	lock.Slow = func() { slow++ }
	healthy := func(want bool, when string) {
		t.Helper()
		if err := lock.Healthy(); (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
	}
	healthy(true, "before the first election")
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	if err := lock.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	at.SetTime(time.Unix(1035, 0))
	healthy(true, "35 s after the renewal")
	at.SetTime(time.Unix(1036, 0))
	healthy(false, "36 s after the renewal")

	script.err = errors.New("no")
	_ = lock.Update(t.Context(), mine)
	script.record.HolderIdentity = "other"
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	healthy(true, "when another process leads")
	_, _, _ = lock.Get(t.Context())
	if slow != 1 {
		t.Errorf("%d slow renewals, want 1", slow)
	}
}
