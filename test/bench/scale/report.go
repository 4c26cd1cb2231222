package scale

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/bench/runner"
)

// results are all that was measured, as -json writes it. Durations are nanoseconds.
type results struct {
	Size        size          `json:"size"`
	Claims      int           `json:"claims"`
	Attachments int           `json:"attachments"`
	Bursts      int           `json:"bursts"`
	Fill        time.Duration `json:"fill"`
	Clusters    []measured    `json:"clusters"` // the empty one, then the large one
}

// measured is what was measured in one cluster.
type measured struct {
	Cluster    string           `json:"cluster"`
	BareWrites float64          `json:"bareWritesPerSecond"`
	Servers    map[string]int64 `json:"serversPeakBytes"`
	Figures    []figures        `json:"contenders"`
}

// figures are those of one contender in one cluster.
type figures struct {
	Contender string   `json:"contender"`
	Requests  []line   `json:"startRequests"`
	Start     start    `json:"start"`
	Burst     burst    `json:"burst"`
	CPU       cpu      `json:"cpuPerClaim"`
	Changes   []change `json:"leaderChanges"`
}

// cpu is the processor time for each claim that is bound and deleted, with its part of the attachments.
type cpu struct {
	Programs  time.Duration `json:"programs"`
	APIServer time.Duration `json:"apiServer"`
	Etcd      time.Duration `json:"etcd"`
}

// serversMemory reads the most memory that the servers have had.
func (b *bench) serversMemory() (map[string]int64, error) {
	all := map[string]int64{}
	for name, pid := range b.Servers() {
		used, err := runner.UsageOf(pid)
		if err != nil {
			return nil, err
		}
		all[name] = used.Most
	}
	return all, nil
}

// row is one line of the table: a figure of a contender.
type row struct {
	name   string
	format string
	of     func(figures) float64
}

func seconds(d time.Duration) float64      { return d.Seconds() }
func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
func megabytes(n int64) float64            { return float64(n) / (1 << 20) }

// rows are the table of a contender.
func rows() []row {
	all := []row{
		{"start to first claim bound, s", "%.2f", func(f figures) float64 { return seconds(f.Start.Claim) }},
		{"start to first volume attached, s", "%.2f", func(f figures) float64 { return seconds(f.Start.Attachment) }},
		{"processor time of the start, s", "%.2f", func(f figures) float64 { return seconds(f.Start.CPU) }},
		{"memory at most, MB", "%.1f", func(f figures) float64 { return megabytes(f.Start.Peak) }},
		{"memory settled, MB", "%.1f", func(f figures) float64 { return megabytes(f.Start.Settled) }},
		{"requests of the start", "%.0f", func(f figures) float64 { return float64(sum(f.Requests).Requests) }},
		{"received at the start, MB", "%.2f", func(f figures) float64 { return megabytes(sum(f.Requests).Bytes) }},
	}
	for _, o := range []struct {
		name string
		of   func(burst) operation
	}{
		{"claims bound", func(b burst) operation { return b.Bind }},
		{"volumes attached", func(b burst) operation { return b.Attach }},
		{"volumes detached", func(b burst) operation { return b.Detach }},
		{"claims deleted", func(b burst) operation { return b.Delete }},
	} {
		all = append(all,
			row{o.name + ", 1/s", "%.0f", func(f figures) float64 { return o.of(f.Burst).PerSecond }},
			row{o.name + ", p50, ms", "%.0f", func(f figures) float64 { return milliseconds(o.of(f.Burst).P50) }},
			row{o.name + ", p99, ms", "%.0f", func(f figures) float64 { return milliseconds(o.of(f.Burst).P99) }})
	}
	all = append(all,
		row{
			"processor time a claim, programs, ms", "%.2f",
			func(f figures) float64 { return milliseconds(f.CPU.Programs) },
		},
		row{
			"processor time a claim, API server, ms", "%.2f",
			func(f figures) float64 { return milliseconds(f.CPU.APIServer) },
		})
	for i, how := range []string{"killed", "told to end"} {
		of := func(pick func(change) time.Duration) func(figures) float64 {
			return func(f figures) float64 { return seconds(pick(f.Changes[i])) }
		}
		all = append(all,
			row{"leader " + how + ", s to the next claim", "%.2f", of(func(c change) time.Duration { return c.Claim })},
			row{"  of it after the last lease", "%.2f", of(func(c change) time.Duration { return c.AfterLease })},
			row{"  s to the next attachment", "%.2f", of(func(c change) time.Duration { return c.Attachment })})
	}
	return all
}

func sum(lines []line) (all traffic) {
	for _, l := range lines {
		all.Requests, all.Bytes = all.Requests+l.Requests, all.Bytes+l.Bytes
	}
	return all
}

// report returns the tables; nothing before both clusters are measured.
func (b *bench) report() string {
	if len(b.results.Clusters) < 2 {
		return ""
	}
	text := b.results.String()
	if b.json == "" {
		return text
	}
	content, err := json.MarshalIndent(b.results, "", "  ")
	if err == nil {
		err = os.WriteFile(b.json, append(content, '\n'), 0o600)
	}
	if err != nil {
		return text + "\n-json: " + err.Error() + "\n"
	}
	return text
}

// String returns the tables and the paragraph on how they were obtained.
func (r results) String() string {
	empty, full := r.Clusters[0], r.Clusters[1]
	var out strings.Builder
	fmt.Fprintf(&out, "\nThe large cluster has %s.\n", r.Size)
	header(&out, "servers")
	tableLine(&out, "writes of a bare client, 1/s", "%.0f", empty.BareWrites, full.BareWrites)
	for _, name := range []string{"kube-apiserver", "etcd"} {
		tableLine(
			&out, name+", memory at most, MB", "%.0f", megabytes(empty.Servers[name]), megabytes(full.Servers[name]),
		)
	}
	for i, f := range empty.Figures {
		header(&out, f.Contender)
		for _, one := range rows() {
			tableLine(&out, one.name, one.format, one.of(f), one.of(full.Figures[i]))
		}
	}
	for _, f := range full.Figures {
		fmt.Fprintf(&out, "\n%s: requests of the start in the large cluster\n", f.Contender)
		for _, l := range f.Requests {
			fmt.Fprintf(&out, "  %-8s%-40s%-12s%-10s%7d%12.3f MB\n",
				l.Verb, l.Resource, l.How, l.Type, l.Requests, megabytes(l.Bytes))
		}
	}
	out.WriteString(r.method())
	return out.String()
}

func header(out *strings.Builder, name string) {
	fmt.Fprintf(out, "\n%-44s%12s%12s%9s\n", name, sizeEmpty, sizeFull, "ratio")
}

func tableLine(out *strings.Builder, name, format string, empty, full float64) {
	ratio := ""
	if empty != 0 {
		ratio = fmt.Sprintf("%.2f", full/empty)
	}
	fmt.Fprintf(out, "  %-42s%12s%12s%9s\n", name, fmt.Sprintf(format, empty), fmt.Sprintf(format, full), ratio)
}

// method says how the tables were obtained.
func (r results) method() string {
	return fmt.Sprintf(`
How it was obtained: one kube-apiserver and one etcd, which does not wait for the disk, in one run. Each contender
is measured in the empty cluster; then clients write the objects of the large one through the API in %s, as a
stock cluster leaves them, and each contender is measured again. The programs start beside a claim and its pod that
wait; the requests are those of another start, behind a proxy, until %s after that claim was served, and bytes
are those of the responses, compressed where the server does so. Memory is the sum of the resident memory of all
programs of a contender. Rates are the median of %d bursts of %d claims at once, of which %d are attached to %d
nodes, detached, and deleted with the others. The driver answers at once. Leases are for %s.
`, r.Fill.Round(time.Second), countTime, r.Bursts, r.Claims, r.Attachments, newNodes, lease.Duration)
}
