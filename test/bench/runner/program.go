package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// Program is a program of a contender.
type Program struct {
	Name    string // of the file
	Args    []string
	Env     []string
	Account string // whose kubeconfig it gets; empty for the administrator's
	Socket  bool   // it takes --csi-address
	HTTP    bool   // it takes --http-endpoint
	Ready   bool   // the next program starts when /readyz of this one answers; needs HTTP
	// Optional has the contender take part without the program, if its file is not there.
	Optional bool
}

// Contender is what is measured: one program, or several that work together; none for a client in this
// process.
type Contender struct {
	Name     string
	Short    string // for -only, where names are too alike; all contenders have one, or none
	Programs []Program
	Baseline bool // the rates of the others are compared with its rates
}

// fits reports whether a word of -only names the contender.
func (c Contender) fits(word string) bool {
	if c.Short != "" && word != "" {
		return c.Short == word
	}
	return strings.Contains(c.Name, word)
}

// missing returns the path of a program that is not there and not optional, else nothing, and the
// contender with the programs that are there.
func (r *Run) missing(one Contender) (path string, present Contender) {
	present = one
	present.Programs = nil
	for _, p := range one.Programs {
		path := filepath.Join(r.Bin, p.Name)
		switch _, err := os.Stat(path); {
		case err == nil:
			present.Programs = append(present.Programs, p)
		case p.Optional:
			fmt.Fprintf(os.Stderr, "%s takes part without %s, which is not there\n", one.Name, path)
		default:
			return path, one
		}
	}
	return "", present
}

// Socket is the path of the driver's socket.
func (r *Run) Socket() string { return filepath.Join(r.Dir, "csi.sock") }

// Process is a program that runs.
type Process struct {
	*stage.Program
	Address string // of its HTTP endpoint; empty for none
}

// Running is a contender with its programs, in their order.
type Running struct {
	Contender
	Processes []*Process
}

// Kill kills all processes.
func (r *Running) Kill() {
	for _, p := range r.Processes {
		p.Kill()
	}
}

// Launch starts the programs of a contender. After an error none is left.
func (r *Run) Launch(ctx context.Context, one Contender) (*Running, error) {
	running := &Running{Contender: one}
	for _, p := range one.Programs {
		started, err := r.Start(ctx, one.Name, p)
		if err != nil {
			running.Kill()
			return nil, err
		}
		running.Processes = append(running.Processes, started)
	}
	return running, nil
}

// Start starts a program with its kubeconfig, and with a log in the folder.
func (r *Run) Start(ctx context.Context, name string, p Program) (started *Process, err error) {
	args := slices.Clone(p.Args)
	if p.Account == "" {
		args = append(args, "--kubeconfig="+r.Cluster.Kubeconfig())
	} else {
		args = append(args, "--kubeconfig="+r.kubeconfig(p.Account))
	}
	if p.Socket {
		args = append(args, "--csi-address="+r.Socket())
	}
	started = &Process{}
	if p.HTTP {
		if started.Address, err = scrape.FreeAddress(); err != nil {
			return nil, err
		}
		args = append(args, "--http-endpoint="+started.Address)
	}
	if started.Program, err = r.Exec(name, p.Name, args, p.Env...); err != nil || !p.Ready {
		return started, err
	}
	if err := started.awaitReady(ctx); err != nil {
		started.Kill()
		return nil, fmt.Errorf("%s is not ready: %w", p.Name, err)
	}
	return started, nil
}

// Exec starts a program with these arguments only. It does not inherit the settings of this process for
// clusters and memory.
func (r *Run) Exec(name, program string, args []string, env ...string) (*stage.Program, error) {
	log, err := os.CreateTemp(r.Dir, strings.ReplaceAll(name, " ", "-")+"-"+program+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	return stage.Launch(stage.Command{
		Path: filepath.Join(r.Bin, program), Args: args, Output: log,
		Env: append([]string{"KUBECONFIG=", "GOGC=", "GOMEMLIMIT=", "GODEBUG="}, env...),
	})
}

func (p *Process) awaitReady(ctx context.Context) error {
	last := errors.New("no response")
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			select {
			case <-p.Ended():
				return false, errors.New("it has ended")
			default:
			}
			_, last = p.Get(ctx, "/readyz")
			return last == nil, nil
		})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// Get reads a page of the HTTP endpoint.
func (p *Process) Get(ctx context.Context, page string) ([]byte, error) {
	return Get(ctx, http.DefaultClient, "http://"+p.Address+page)
}

// Get reads a page.
func Get(ctx context.Context, from *http.Client, url string) (content []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := from.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}
