package provision

import (
	"testing"

	"google.golang.org/grpc/codes"
)

// C-1, C-3: an edit of a claim that waits for a retry has it tried at once, whether the last error
// was final or uncertain; other runs of the claim make no call before the retry is due.
func TestEditEndsTheDelay(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.Unavailable} {
		r := newRig(t, withoutSecrets)
		r.driver.create = code
		expect := func(what string, calls int) {
			t.Helper()
			if r.run(t); len(r.driver.created) != calls {
				t.Errorf("%s, %s: %d calls, want %d", code, what, len(r.driver.created), calls)
			}
		}
		expect("first attempt", 1)
		expect("nothing edited", 1)
		claim := r.claim(t)
		claim.Annotations["example.com/note"] = "try again"
		if err := r.api.Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		expect("an annotation edited", 2)
		expect("nothing edited since", 2)
		claim = r.claim(t)
		claim.Labels = map[string]string{"example.com/note": "again"}
		if err := r.api.Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		expect("a label edited", 3)
	}
}
