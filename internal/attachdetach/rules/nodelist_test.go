package attachment

import (
	"testing"
	"time"
)

// 4.6: attaches that follow each other on one node are listed together, and nothing else waits.
func TestListWriteDue(t *testing.T) {
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		w    ListWrite
		wait time.Duration
	}{
		"the first of many":        {ListWrite{UnderWay: true}, 0},
		"one of many":              {ListWrite{Last: ago(ListSpacing / 5), UnderWay: true}, ListSpacing * 4 / 5},
		"many, the time is over":   {ListWrite{Last: ago(ListSpacing), UnderWay: true}, 0},
		"the last of many":         {ListWrite{Last: ago(ListSpacing / 5)}, 0},
		"a detach among attaches":  {ListWrite{Last: ago(ListSpacing / 5), UnderWay: true, Detaches: true}, 0},
		"too many workers wait":    {ListWrite{Last: ago(ListSpacing / 5), UnderWay: true, Crowded: true}, 0},
		"the clock was set back":   {ListWrite{Last: ago(-time.Hour), UnderWay: true}, 0},
		"one volume, idle cluster": {ListWrite{}, 0},
	} {
		if got := c.w.Due(now).Sub(now); got != c.wait {
			t.Errorf("%s: waits for %s, want %s", name, got, c.wait)
		}
	}
}

// 4.6: a node alone is written at once, and the wait for a turn does not grow with the number of nodes.
func TestMostListWrites(t *testing.T) {
	for nodes, want := range map[int]int{0: 1, 1: 1, 2: 1, 15: 1, 16: 2, 1000: 125} {
		if got := MostListWrites(nodes); got != want {
			t.Errorf("%d nodes: %d writes at once, want %d", nodes, got, want)
		}
	}
}
