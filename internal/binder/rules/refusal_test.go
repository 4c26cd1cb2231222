package binding

import (
	"testing"

	"github.com/purser-csi/purser/internal/verdict"
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
		refused, _ := AfterRefusal(seen, ClaimVolume{Volume: aVolume(named("w"))}, "it is outdated")
		tc.now.Refusal = refused.Refusal
		v := Decide(tc.now)
		if ended := v.Because().Reason == verdict.WriteFailed && v.Because().Text() == "it is outdated"; ended != tc.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
	_, asks := AfterRefusal(seen, ClaimVolume{Volume: aVolume(named("x")), Claim: seen.Claim}, "")
	if got := stepsOf(asks); got != readsLive("claim", "volume", "volume", "volume") {
		t.Errorf("asks for %s", got)
	}
	_, asks = AfterRefusal(Snapshot{Key: Key{Volume: "v"}}, SetVolumePhase{Volume: aVolume()}, "")
	if got := stepsOf(asks); got != readsLive("volume") {
		t.Errorf("of a volume without a claim: %s", got)
	}
}
