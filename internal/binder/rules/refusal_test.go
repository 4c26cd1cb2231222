package binding

import (
	"slices"
	"testing"
)

// C1: a refused write is decided again on what the API server has, unless that is what it was
// decided on.
func TestRefusal(t *testing.T) {
	for code, want := range map[int32]bool{
		404: true, 409: true, 422: true, 403: false, 400: false, 500: false, 429: false,
	} {
		if IsOutdated(code) != want {
			t.Errorf("status %d: %t", code, !want)
		}
	}
	at := func(version string) func(*pv) { return func(v *pv) { v.ResourceVersion = version } }
	seen := cluster(claim(namesVolume("v")), aVolume(at("1"))).with(freeVolume(aVolume(named("w"))))
	for name, tc := range map[string]struct {
		now  Snapshot
		want bool
	}{
		"the same": {seen, true},
		"the volume has changed": {
			cluster(claim(namesVolume("v")), aVolume(at("2"))).with(freeVolume(aVolume(named("w")))), false,
		},
		"the volume is gone": {cluster(claim(namesVolume("v"))).with(freeVolume(aVolume(named("w")))), false},
		"the claim is gone":  {cluster(nil, aVolume(at("1"))).with(freeVolume(aVolume(named("w")))), false},
	} {
		if got := IsUnchanged(seen, tc.now); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	ask := AskAfterRefusal(seen, ClaimVolume{Volume: aVolume(named("x")), Claim: seen.Claim})
	if !ask.Claim || !slices.Equal(ask.Volumes, []string{"v", "w", "x"}) {
		t.Errorf("asked for %+v", ask)
	}
	if loose := AskAfterRefusal(Snapshot{Key: Key{Volume: "v"}}, SetVolumePhase{Volume: aVolume()}); loose.Claim ||
		!slices.Equal(loose.Volumes, []string{"v"}) {
		t.Errorf("of a volume without a claim: %+v", loose)
	}
}
