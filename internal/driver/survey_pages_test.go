package driver

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// runs are extents that are given as offset, length, offset, length.
func runs(numbers ...int64) []backend.Extent {
	all := []backend.Extent{}
	for pair := range slices.Chunk(numbers, 2) {
		all = append(all, backend.Extent{Offset: pair[0], Length: pair[1]})
	}
	return all
}

// paged gives the messages that are made of some extents.
func paged(from, end int64, size int, all []backend.Extent) (messages [][]backend.Extent, err error) {
	p := &surveyPages{from: from, end: end, size: size, send: func(part []backend.Extent) error {
		messages = append(messages, append([]backend.Extent{}, part...))
		return nil
	}}
	for _, e := range all {
		if err := p.add(e); err != nil {
			return messages, err
		}
	}
	return messages, p.finish()
}

func TestSurveyPages(t *testing.T) {
	type extents = []backend.Extent
	three := runs(0, 10, 20, 10, 40, 10)
	tests := []struct {
		why       string
		from, end int64
		size      int
		all       extents
		want      []extents
	}{
		{"nothing is one message", 0, 100, 5, nil, []extents{{}}},
		{"all in one", 0, 100, 5, three, []extents{three}},
		{"exactly full", 0, 100, 3, three, []extents{three}},
		{"two and one", 0, 100, 2, three, []extents{runs(0, 10, 20, 10), runs(40, 10)}},
		{"one each", 0, 100, 1, three, []extents{runs(0, 10), runs(20, 10), runs(40, 10)}},
		{"what touches is one", 0, 100, 1, runs(0, 10, 10, 10, 20, 1, 30, 1), []extents{runs(0, 21), runs(30, 1)}},
		{"empty extents are none", 0, 100, 5, runs(5, 0, 7, 1), []extents{runs(7, 1)}},
		{"from between two", 15, 100, 5, three, []extents{runs(20, 10, 40, 10)}},
		{"from inside one", 25, 100, 5, three, []extents{runs(25, 5, 40, 10)}},
		{"from at the end of one", 30, 100, 5, three, []extents{runs(40, 10)}},
		{"from behind the last", 50, 100, 5, three, []extents{{}}},
		{"from the end", 100, 100, 5, three, []extents{{}}},
		{"cut at the end", 0, 45, 5, three, []extents{runs(0, 10, 20, 10, 40, 5)}},
		{"all behind the end", 0, 0, 5, three, []extents{{}}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			got, err := paged(test.from, test.end, test.size, test.all)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSurveyPagesRefuseWhatIsOutOfOrder(t *testing.T) {
	for _, all := range [][]backend.Extent{runs(10, 10, 0, 5), runs(0, 10, 9, 5), runs(0, -1)} {
		if _, err := paged(0, 100, 5, all); !fault.Internal.Is(err) {
			t.Errorf("%v: %v, want internal", all, err)
		}
	}
}

func TestSurveyPagesEndWithAFailedMessage(t *testing.T) {
	gone := errors.New("gone")
	p := &surveyPages{end: 100, size: 1, send: func([]backend.Extent) error { return gone }}
	if err := p.add(backend.Extent{Offset: 0, Length: 1}); err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := p.add(backend.Extent{Offset: 5, Length: 1}); !errors.Is(err, gone) {
		t.Errorf("the second: %v", err)
	}
}

// A caller that goes on behind the last byte that arrived misses nothing and gets
// nothing twice, wherever the stream broke and however large its messages are.
func TestSurveyPagesCanBeResumed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []backend.Extent
		end := int64(0)
		for range rapid.IntRange(0, 30).Draw(t, "extents") {
			e := backend.Extent{Offset: end + rapid.Int64Range(0, 3).Draw(t, "gap"), Length: rapid.Int64Range(0, 5).Draw(t, "length")}
			all, end = append(all, e), e.End()
		}
		draw := func(from int64) [][]backend.Extent {
			size := rapid.IntRange(1, 8).Draw(t, "size")
			messages, err := paged(from, end, size, all)
			if err != nil || len(messages) == 0 {
				t.Fatalf("%d messages, %v", len(messages), err)
			}
			for i, m := range messages {
				if len(m) > size || len(m) == 0 && len(messages) > 1 {
					t.Fatalf("message %d has %d extents of %d", i, len(m), size)
				}
			}
			return messages
		}
		whole := draw(0)
		broken := whole[:rapid.IntRange(0, len(whole)).Draw(t, "received")]
		first := slices.Concat(broken...)
		from := int64(0)
		if len(first) > 0 {
			from = first[len(first)-1].End()
		}
		got := slices.Concat(first, slices.Concat(draw(from)...))
		if want := slices.Concat(whole...); !slices.Equal(bytesIn(got), bytesIn(want)) || !slices.Equal(bytesIn(want), bytesIn(all)) {
			t.Fatalf("%v and then from %d: %v, want %v", first, from, got, all)
		}
		for i, e := range got {
			if e.Length <= 0 || i > 0 && e.Offset < got[i-1].End() {
				t.Fatalf("not ascending: %v", got)
			}
		}
	})
}

func bytesIn(extents []backend.Extent) (offsets []int64) {
	for _, e := range extents {
		for at := e.Offset; at < e.End(); at++ {
			offsets = append(offsets, at)
		}
	}
	return offsets
}
