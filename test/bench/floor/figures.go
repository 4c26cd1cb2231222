package floor

import (
	"cmp"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/audit"
)

// figure is what one contender needed for one row in one round, for each operation where nothing else is
// said. Requests and bytes are of the first round.
type figure struct {
	row, contender string
	round          int
	idle           []time.Duration // of single operations
	writes         []time.Duration // each write of the bare client in these
	rate           float64         // operations in a second
	programs       float64         // processor time in milliseconds
	server         float64         // of the API server and etcd
	requests
}

// requests are those of a contender for each operation.
type requests struct {
	Writes     float64            `json:"writes"` // without events and the journal
	Reads      float64            `json:"reads"`
	Events     float64            `json:"events"`
	Journal    float64            `json:"journal"` // writes of Leases
	Refused    int                `json:"refused"` // answers 404 and 409, of all operations
	Kinds      map[string]float64 `json:"kinds"`   // by verb and resource
	WatchBytes float64            `json:"watchBytes"`
}

// count takes the requests of n operations. Watches and discovery are not for an operation.
func (r *requests) count(all audit.Tally, n float64) {
	r.Kinds = map[string]float64{}
	for kind, answers := range all {
		if kind.Verb == "watch" || kind.IsDiscovery() {
			continue
		}
		each := float64(answers.All()) / n
		r.Kinds[kind.Verb+" "+kind.Resource] += each
		switch {
		case kind.Resource == "leases" && kind.IsWrite():
			r.Journal += each
		case kind.IsEvent():
			r.Events += each
		case kind.IsWrite():
			r.Writes += each
			r.Refused += answers[http.StatusConflict] + answers[http.StatusNotFound]
		default:
			r.Reads += each
		}
	}
}

// table is the result of a run.
type table struct {
	Volumes    int      `json:"volumes"` // in each burst
	Nodes      int      `json:"nodes"`
	Workers    int      `json:"workers"`
	Idle       int      `json:"idle"` // single operations in each round
	Rounds     int      `json:"rounds"`
	Cores      int      `json:"cores"`
	Durable    bool     `json:"durable"`    // etcd waits for the disk
	WriteMS    float64  `json:"writeMs"`    // w: a write of the bare client in single operations, median
	Lines      []line   `json:"rows"`       // by row, then by contender
	Memory     []kept   `json:"memory"`     // empty without -pairs
	LeftOut    []string `json:"leftOut"`    // rows of stock without a program
	Paragraphs []string `json:"paragraphs"` // how each row is obtained
}

// line is one contender in one row.
type line struct {
	Row       string `json:"row"`
	ID        string `json:"id"` // of the floor
	Contender string `json:"contender"`
	requests
	Floor      float64   `json:"floor"`
	Depth      int       `json:"depth"`
	IdleMS     float64   `json:"idleMs"` // median
	DepthMS    float64   `json:"depthMs"`
	Rate       float64   `json:"rate"` // median of the rounds
	Rates      []float64 `json:"rates"`
	OfBare     float64   `json:"ofBare"` // median of the ratios of each round; 0 without a bare client
	ProgramsMS float64   `json:"programsMs"`
	ServerMS   float64   `json:"serverMs"`
}

// The aims of issue 43, which marks in the table refer to.
const (
	aimWrites = 1.05 // times the floor
	aimIdle   = 1.5  // times depth and write
	aimRate   = 0.9  // of the bare client
)

// table sums up the rounds.
func (b *bench) table() table {
	t := table{
		Volumes: b.sizes.volumes, Nodes: b.sizes.nodes, Workers: b.sizes.workers, Idle: b.sizes.idle,
		Cores:   runtime.NumCPU(),
		Durable: !b.volatile, Memory: b.kept,
	}
	var writes []time.Duration
	for _, f := range b.figures {
		writes, t.Rounds = append(writes, f.writes...), max(t.Rounds, f.round)
	}
	t.WriteMS = milliseconds(runner.Percentile(writes, 50))
	share := max(1, float64(b.sizes.volumes)/float64(b.sizes.nodes))
	for _, o := range operations() {
		if !b.selects(o.name) {
			continue
		}
		t.Paragraphs = append(t.Paragraphs, o.paragraph())
		for _, one := range b.contenders() {
			if rounds := b.rounds(o.name, one.Short); len(rounds) > 0 {
				l := b.line(o, one, rounds)
				l.Floor, l.DepthMS = o.floors[formOf(one)].floor(share), float64(l.Depth)*t.WriteMS
				t.Lines = append(t.Lines, l)
			}
		}
		if b.Run == nil {
			continue
		}
		for _, one := range b.Contenders {
			if program := lacks(one, o); program != "" {
				t.LeftOut = append(t.LeftOut, o.name+" of "+one.Name+": there is no "+program)
			}
		}
	}
	return t
}

// rounds returns the figures of a row and a contender, in order.
func (b *bench) rounds(row, contender string) (all []figure) {
	for _, f := range b.figures {
		if f.row == row && f.contender == contender {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(x, y figure) int { return cmp.Compare(x.round, y.round) })
	return all
}

func (b *bench) line(o operation, one runner.Contender, rounds []figure) line {
	l := line{
		Row: o.name, ID: o.id, Contender: one.Short, requests: rounds[0].requests, Depth: o.floors[formOf(one)].Depth,
	}
	var idle []time.Duration
	var programs, servers, ratios []float64
	bare := b.rounds(o.name, bareOf(one.Short))
	for i, f := range rounds {
		idle = append(idle, f.idle...)
		l.Rates = append(l.Rates, f.rate)
		programs, servers = append(programs, f.programs), append(servers, f.server)
		if i < len(bare) {
			ratios = append(ratios, f.rate/bare[i].rate)
		}
	}
	l.IdleMS = milliseconds(runner.Percentile(idle, 50))
	l.Rate, l.ProgramsMS, l.ServerMS = runner.Median(l.Rates), runner.Median(programs), runner.Median(servers)
	if len(ratios) > 0 && !isBare(one) {
		l.OfBare = runner.Median(ratios)
	}
	return l
}
