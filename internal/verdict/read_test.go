package verdict

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Settle reads what the decision asks for, round by round, and no more.
func TestSettle(t *testing.T) {
	done := Nothing[int]{Finding: Finding{Reason: VolumeProvisioned}}
	want := []string{"claim", "class"}
	decide := func(have []string) Verdict[int] {
		if len(have) < len(want) {
			return MustRead[int](Ref{What: want[len(have)]})
		}
		return done
	}
	have, v, err := Settle(nil, decide, func(have []string, refs []Ref) ([]string, error) {
		return append(have, refs[0].String()), nil
	})
	if err != nil || v != Verdict[int](done) || !slices.Equal(have, want) {
		t.Errorf("Settle = %v, %v, %v", have, v, err)
	}
}

// An object that cannot be read is an error, and a rule that asks without end is refused by name.
func TestSettleEnds(t *testing.T) {
	ref := Ref{What: "Secret", Namespace: "a", Name: "b"}
	asks := func(int) Verdict[int] { return MustRead[int](ref) }
	if _, v, err := Settle(0, asks, func(s int, _ []Ref) (int, error) { return s, errors.New("no") }); err == nil || v != nil {
		t.Errorf("an error became %v, %v", v, err)
	}
	rounds, v, err := Settle(0, asks, func(s int, _ []Ref) (int, error) { return s + 1, nil })
	refused, ok := v.(Refuse[int])
	if err != nil || !ok || rounds != maxRounds || refused.Reason != DecisionsEndless ||
		!strings.Contains(refused.Message, "Secret/a/b") {
		t.Errorf("after %d rounds: %+v, %v", rounds, v, err)
	}
}
