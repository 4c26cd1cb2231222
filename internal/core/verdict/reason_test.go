package verdict

import (
	"slices"
	"testing"
)

// Each reason has a meaning and a check, from which its page in docs/reasons is generated.
func TestReasonsAreDocumented(t *testing.T) {
	for _, r := range All() {
		info := Describe(r)
		if info.Meaning == "" || info.Check == "" {
			t.Errorf("%s: Meaning and Check must be written", r)
		}
		if (info.Severity == Silent) != (info.Event == "") {
			t.Errorf("%s: an event reason is needed exactly when the reason is not silent, got %q", r, info.Event)
		}
	}
}

// An event that upstream does not have is named after its reason, so that it is not mistaken for
// one of upstream's. The documentation lists it.
func TestOwnEvents(t *testing.T) {
	var own []string
	for _, r := range All() {
		if info := Describe(r); info.Severity != Silent && !IsUpstreams(info.Event) {
			own = append(own, info.Event)
			if info.Event != string(r) {
				t.Errorf("%s: event %q", r, info.Event)
			}
		}
	}
	want := []string{
		"AttributesClassUsed", "CapacityInvalid", "CapacityUnknown", "ClaimBlockedByFinalizers", "ClaimStillUsed", "ReuseInvalid", "VolumeBlockedByFinalizers", "VolumeReleased", "VolumeReused", "VolumeStillUsed",
	}
	if !slices.Equal(own, want) {
		t.Errorf("own events %q, want %q: docs/differences.md has them", own, want)
	}
}

func TestFindingText(t *testing.T) {
	for _, tc := range []struct {
		finding Finding
		want    string
	}{
		{Finding{Message: "class x does not exist"}, "class x does not exist"},
		{Finding{Message: "class x does not exist", Fix: "Create it"}, "class x does not exist. Create it"},
	} {
		if got := tc.finding.Text(); got != tc.want {
			t.Errorf("Text() = %q, want %q", got, tc.want)
		}
	}
}
