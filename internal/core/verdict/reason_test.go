package verdict

import "testing"

// Every reason is documented: a person who meets one in an event must be able to look it up.
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
