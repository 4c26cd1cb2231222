package explain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/internal/ui"
)

// Pages is the cluster, dump or record that flags choose, for the commands that show pages of it.
type Pages struct{ source }

// NewPages returns the source of a command.
func NewPages(streams Streams) *Pages { return &Pages{source{in: streams.In, notes: streams.Err}} }

// AddFlags adds the flags that select the source.
func (p *Pages) AddFlags(f *pflag.FlagSet) {
	p.flags(f)
	p.dumpFlags(f)
}

// Of sets the API server, in place of that of a kubeconfig.
func (p *Pages) Of(config *rest.Config) { p.API = config }

// IsFile reports whether a dump or a record was named.
func (p *Pages) IsFile() bool { return len(p.from) > 0 }

// InNamespace returns the namespace of the flags; empty for all.
func (p *Pages) InNamespace() string { return p.Namespace }

// Validate refuses times without a file.
func (p *Pages) Validate() error {
	if !p.IsFile() && (p.now != "" || p.at != "") {
		return errors.New("--now and --at: only a dump and a record have times of their own; give --from as well")
	}
	return nil
}

// Client returns a client of the API server, and the namespace of the context.
func (p *Pages) Client() (client.WithWatch, string, error) { return p.client() }

// RESTConfig returns how the API server is reached.
func (p *Pages) RESTConfig() (*rest.Config, error) {
	config, _, err := p.Config("purser-ui")
	return config, err
}

// Title names the source for a reader.
func (p *Pages) Title() string {
	if p.IsFile() {
		var names []string
		for _, from := range p.from {
			names = append(names, filepath.Base(from))
		}
		return strings.Join(names, ", ")
	}
	return p.source.Title()
}

// State reads the source once.
func (p *Pages) State(ctx context.Context) (*ui.State, error) {
	cluster, _, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	return p.stateOf(cluster), nil
}

func (p *Pages) stateOf(cluster *rules.Cluster) *ui.State {
	s := &ui.State{Title: p.Title(), Cluster: cluster, Namespace: p.Namespace}
	if p.record == nil {
		of := life.OfCluster(cluster)
		of.Calls = p.calls(cluster.Now.Add(time.Second)) // the time of a dump has whole seconds
		s.Changes = func() *life.History { return life.New(of) }
		return s
	}
	OfRecord(s, p.record)
	return s
}

// OfRecord gives a state the times that a record has.
func OfRecord(s *ui.State, r *record.Record) {
	s.Changes, s.Notes = r.History, slices.Concat(s.Notes, r.Notes)
	s.At = func(at time.Time) (*rules.Cluster, error) {
		builder, err := r.At(at)
		if err != nil {
			return nil, err
		}
		return builder.Cluster(), nil
	}
}

// OpenFiles returns the state of dumps or records, by the names of the files.
func OpenFiles(files map[string][]byte) (*ui.State, error) {
	p := &Pages{source{from: slices.Sorted(maps.Keys(files)), once: files}}
	return p.State(context.Background())
}

// HiddenState is [Pages.State] with names replaced as in a dump or a record with hidden names.
func (p *Pages) HiddenState(ctx context.Context) (*ui.State, error) {
	text, err := p.hidden(ctx)
	if err != nil {
		return nil, err
	}
	s, err := OpenFiles(map[string][]byte{"hidden names": text})
	if err == nil {
		s.Title = "names are hidden"
	}
	return s, err
}

func (p *Pages) hidden(ctx context.Context) ([]byte, error) {
	var out bytes.Buffer
	for _, from := range p.from {
		text, isRecord, err := p.recordIn(from)
		switch {
		case err != nil:
			return nil, err
		case isRecord && (len(p.from) > 1 || p.at != ""):
			return nil, errors.New(
				"--hide-names: it takes one record, up to its end; leave out the other --from and --at",
			)
		case isRecord:
			notes, err := record.HideNames(text, &out)
			p.note(notes)
			return out.Bytes(), err
		}
	}
	dump := &dumpOptions{source: p.source, hideNames: true, maxSize: "1Gi", out: &out}
	err := dump.run(ctx)
	return out.Bytes(), err
}

// Refs reads the objects of arguments, KIND/NAME each.
func (p *Pages) Refs(args []string, namespace string) ([]rules.Ref, error) {
	if len(args) == 0 {
		return nil, nil
	}
	return parseRefs(args, cmp.Or(p.Namespace, namespace, "default"))
}

// SetExitCodes documents the codes of a command that does what it is for, or cannot.
func SetExitCodes(c *cobra.Command, done string) { setExitCodes(c, done) }

// CannotTell gives an error the exit code 2.
func CannotTell(err error) error { return cannotTell(err) }

// page writes the page of one object as a file.
func (o *lifeOptions) page(ctx context.Context, args []string) error {
	cluster, namespace, err := o.read(ctx)
	if err != nil {
		return err
	}
	refs, err := parseRefs(args, namespace)
	if err != nil {
		return err
	}
	if len(refs) != 1 {
		return fmt.Errorf("-o html: expected one KIND/NAME, and not %d; purser report has pages of many", len(refs))
	}
	p := &Pages{o.source}
	return writePage(o.out, p.stateOf(cluster), refs[0])
}

func writePage(out io.Writer, s *ui.State, ref rules.Ref) error {
	return ui.Report(out, s, ui.ReportOptions{Objects: []rules.Ref{ref}, Single: true})
}

// OfLive gives a state the times that a running program has kept.
func OfLive(s *ui.State, live *record.Live, now time.Time) {
	r := live.Record(now)
	s.Changes = func() *life.History { return r.HistoryTo(s.Cluster) }
	s.At = func(at time.Time) (*rules.Cluster, error) {
		builder, err := r.At(at)
		if err != nil {
			return nil, err
		}
		return builder.Cluster(), nil
	}
}
