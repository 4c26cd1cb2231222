package provisioner

import (
	"strings"
	"testing"
)

// O-2: the Endpoints lock of v1 is used exactly when the flags of v1 select it.
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
		if err != nil || p.Election.Enabled != tc.enabled || p.Election.TakesEndpoints() != tc.endpoints {
			t.Errorf("%q: %v, enabled %v, endpoints %v", tc.args, err, p.Election.Enabled, p.Election.TakesEndpoints())
		}
	}
}

// O-3, LK-1: v1 uses one name for its Endpoints object. With another name, v1 and this version
// would both lead.
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
