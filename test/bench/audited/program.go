package audited

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// Program is one that is measured.
type Program struct {
	Name    string // of the file
	Args    []string
	Account string
	Socket  string // for --csi-address; empty where it takes none
}

// Contender is what is measured: one program, or several that work together.
type Contender struct {
	Name     string
	Programs []Program
}

// Missing returns the path of a program that is not there, else nothing.
func (s *Server) Missing(one Contender) string {
	for _, p := range one.Programs {
		if path := filepath.Join(s.Bin, p.Name); !exists(path) {
			return path
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Launch starts the programs of a contender; each has a log in the folder. What has started is
// returned with an error, too.
func (s *Server) Launch(one Contender) (all []*stage.Program, err error) {
	for _, p := range one.Programs {
		log, err := os.CreateTemp(s.Dir, strings.ReplaceAll(one.Name, " ", "-")+"-*.log")
		if err != nil {
			return all, err
		}
		args := append(slices.Clone(p.Args), "--kubeconfig="+s.kubeconfig(p.Account))
		if p.Socket != "" {
			args = append(args, "--csi-address="+p.Socket)
		}
		started, err := stage.Launch(stage.Command{
			Path: filepath.Join(s.Bin, p.Name), Args: args, Output: log,
			Env: []string{"KUBECONFIG=", "GOGC=", "GOMEMLIMIT=", "GODEBUG="},
		})
		_ = log.Close() // the child has its own
		if err != nil {
			return all, err
		}
		all = append(all, started)
	}
	return all, nil
}

// Requests returns the requests of the accounts by verb and resource, for each of n volumes. Watches,
// discovery and leases are left out.
func Requests(tally audit.Tally, n int, accounts ...string) string {
	var b strings.Builder
	conflicts, absent, all := 0, 0, 0
	counts := map[string]int{}
	for _, account := range accounts {
		part := tally.By(audit.ServiceAccount(process.SystemNamespace, account)).Where(func(r audit.Request) bool {
			return r.Verb != "watch" && !r.IsDiscovery() && r.Resource != "leases"
		})
		conflicts, absent, all = conflicts+part.Answered(409), absent+part.Answered(404), all+part.All()
		for r, answers := range part {
			counts[r.Verb+" "+r.Resource] += answers.All()
		}
	}
	fmt.Fprintf(&b, "  requests a volume                  %.2f; answered 404: %d, 409: %d\n", float64(all)/float64(n), absent, conflicts)
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "    %-40s %.2f\n", kind, float64(counts[kind])/float64(n))
	}
	return b.String()
}

// Percentile is that of durations, which it sorts.
func Percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)*percent/100, len(all)-1)]
}

// Short prints a duration with a tenth of a millisecond.
func Short(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }
