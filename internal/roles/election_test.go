package roles

import (
	"context"
	"errors"
	"strings"
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
		if got := leaseName(driver); got != want {
			t.Errorf("leaseName(%q) = %q, want %q", driver, got, want)
		}
	}
}

// LK-2, H-32: two processes on one host have two identities, and each keeps its own.
func TestElectionIdentity(t *testing.T) {
	a, b := NewProvisioner(), NewProvisioner()
	if a.Election.Identity() == b.Election.Identity() || a.Election.Identity() == "" {
		t.Error("identities collide")
	}
}

// O-2: the lock of v1 is taken exactly when v1's flags ask for it.
func TestElectionTakesEndpoints(t *testing.T) {
	for _, tc := range []struct {
		args      []string
		enabled   bool
		endpoints bool
	}{
		{[]string{"--leader-election"}, true, false},
		{[]string{"--enable-leader-election"}, true, true},
		{[]string{"--enable-leader-election=true", "--leader-election-type=leases"}, true, false},
		{[]string{"--enable-leader-election=false"}, false, false},
		{[]string{"--leader-election", "--leader-election-type=endpoints"}, true, true},
		{[]string{"--leader-election-type=endpoints"}, false, false},
	} {
		p, err := parsed(t, tc.args...)
		if err != nil || p.Election.Enabled != tc.enabled || p.Election.takesEndpoints() != tc.endpoints {
			t.Errorf("%q: %v, enabled %v, endpoints %v", tc.args, err, p.Election.Enabled, p.Election.takesEndpoints())
		}
	}
}

// O-3, LK-1: v1 looks at one Endpoints object only, and another name would let it lead beside us.
func TestLockOfV1KeepsItsName(t *testing.T) {
	own := "--leader-election-lease-name=disks"
	for _, tc := range []struct {
		args []string
		good bool
	}{
		{[]string{own, "--leader-election"}, true},
		{[]string{own, "--leader-election-type=endpoints"}, true}, // no election
		{[]string{own, "--enable-leader-election", "--leader-election-type=leases"}, true},
		{[]string{own, "--enable-leader-election"}, false},
		{[]string{own, "--leader-election", "--leader-election-type=endpoints"}, false},
		{[]string{"--enable-leader-election"}, true},
	} {
		p, err := parsed(t, tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); (err == nil) != tc.good || err != nil && !strings.Contains(err.Error(), "--leader-election-lease-name=") {
			t.Errorf("%q: %v", tc.args, err)
		}
	}
}

// O-3, RB-12: v1 had no controllers, so those of plane take the lease alone, and under the name of their own holder.
func TestControllersOfPlaneTakeNoLockOfV1(t *testing.T) {
	for _, args := range [][]string{{"--enable-leader-election"}, {"--leader-election", "--leader-election-type=endpoints"}} {
		p, err := parsed(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		controllers := electionBeside(p.Election, "controllers")
		if controllers.takesEndpoints() || !controllers.Enabled || controllers.identity != "controllers" || !p.Election.takesEndpoints() {
			t.Errorf("%q: controllers %+v, provisioner %+v", args, controllers, p.Election)
		}
	}
}

// F-44, EN-5.
func TestElectionNamespace(t *testing.T) {
	e := &Election{}
	t.Setenv("POD_NAMESPACE", "pod")
	if got := e.namespace(); got != "pod" {
		t.Errorf("namespace %q", got)
	}
	e.Namespace = "flag"
	if got := e.namespace(); got != "flag" {
		t.Errorf("namespace %q", got)
	}
}

// scriptedLock answers as it is told.
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

// HT-2: only a leader whose renewal is overdue by more than 20 s is unhealthy. ME-7: a renewal that must read again is counted.
func TestWatchedLock(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	script := &scriptedLock{}
	lock := newWatchedLock(script, 15*time.Second)
	lock.clock = at
	slow := 0
	lock.slow = func() { slow++ }
	healthy := func(want bool, when string) {
		t.Helper()
		if err := lock.healthy(); (err == nil) != want {
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
	healthy(true, "when somebody else leads")
	_, _, _ = lock.Get(t.Context())
	if slow != 1 {
		t.Errorf("%d slow renewals, want 1", slow)
	}
}
