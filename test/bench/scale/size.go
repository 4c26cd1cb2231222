package scale

import "fmt"

// size is how many objects a cluster has. A pair is a bound claim with its volume; the first pods use the
// first claims, and the volumes of the first of these are attached.
type size struct {
	Pairs       int `json:"pairs"`
	Nodes       int `json:"nodes"`
	Attachments int `json:"attachments"`
	Pods        int `json:"pods"`
}

// whole is the size that -scale=1 builds.
var whole = size{Pairs: 100_000, Nodes: 10_000, Attachments: 30_000, Pods: 50_000}

// scaled returns a part of the size, with at least one object of each kind.
func (s size) scaled(part float64) size {
	of := func(n int) int { return max(1, int(float64(n)*part)) }
	return size{Pairs: of(s.Pairs), Nodes: of(s.Nodes), Attachments: of(s.Attachments), Pods: of(s.Pods)}
}

func (s size) String() string {
	return fmt.Sprintf(
		"%d claims and volumes, %d nodes, %d attachments, %d pods", s.Pairs, s.Nodes, s.Attachments, s.Pods,
	)
}
