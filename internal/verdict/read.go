package verdict

import "strings"

// Read means that the decision depends on objects which the snapshot does not have. They are read into
// the snapshot, and the decision is made again.
type Read[A any] struct {
	Finding
	Refs []Ref // at least one
}

// Ref names what a decision must read. Two decisions that need the same have equal Refs.
type Ref struct {
	What            string // the kind of object or question, as the rules of a feature name it
	Namespace, Name string // empty where What says all
}

// String returns the reference for messages.
func (r Ref) String() string {
	parts := []string{r.What}
	for _, part := range []string{r.Namespace, r.Name} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

func (Read[A]) sealed(A) {}

// MustRead returns the verdict that asks for these objects.
func MustRead[A any](refs ...Ref) Verdict[A] { return Read[A]{Refs: refs} }

// maxRounds bounds the reads of one decision. A rule that asks again for what it got is a bug.
const maxRounds = 8

// Settle decides, reads what the decision asks for into the snapshot and decides again, until the
// verdict is not a [Read]. It returns the snapshot that the verdict is about. The error is that of read,
// which must not change s if it fails.
func Settle[S, A any](
	s S, decide func(S) Verdict[A], read func(S, []Ref) (S, error),
) (S, Verdict[A], error) {
	for range maxRounds {
		v := decide(s)
		asks, ok := v.(Read[A])
		if !ok {
			return s, v, nil
		}
		var err error
		if s, err = read(s, asks.Refs); err != nil {
			return s, nil, err
		}
	}
	var asked []string
	if asks, ok := decide(s).(Read[A]); ok {
		for _, ref := range asks.Refs {
			asked = append(asked, ref.String())
		}
	}
	return s, Refuse[A]{
		Retry: RetrySlowly,
		Finding: Because(
			DecisionsEndless,
			"the decision asked for objects %d times and still asks for %s; this is a bug of Purser, please report it",
			maxRounds, strings.Join(asked, ", "),
		),
	}, nil
}
