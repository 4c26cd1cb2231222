package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/scripted"
)

// Run is an API server with an audit log, the driver, and what was measured so far.
type Run struct {
	Options
	Bin, Dir   string // of the built programs, and of the logs
	Cluster    *cluster.Cluster
	API        client.WithWatch // the administrator's, without limits
	Cache      ctrlcache.Cache
	Log        *audit.Log
	Contenders []Contender // that take part and whose programs are there

	servers map[string]int // process ids
	rates   []rate
	calls   calls
}

// run plays the workload in a new folder, which stays after an error that is no interrupt.
func run(ctx context.Context, w Workload, o Options) error {
	ctrllog.SetLogger(logr.Discard()) // the watches of the benchmark log what has no meaning here
	bin, err := stage.Bin()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	r := &Run{Options: o, Bin: bin, Dir: dir}
	fmt.Fprintf(os.Stderr, "Starting an API server; logs are in %s ...\n", dir)
	err = r.play(ctx, w)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w\nthe logs are in %s", err, dir)
	}
	if o.Keep {
		return err
	}
	return errors.Join(err, os.RemoveAll(dir))
}

func (r *Run) play(ctx context.Context, w Workload) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the cache
	if w.Driver != nil {
		if d := w.Driver(); d != nil {
			server, err := scripted.Serve(ctx, r.Socket(), d, grpc.UnaryInterceptor(r.calls.count))
			if err != nil {
				return err
			}
			defer server.Stop()
		}
	}
	if err := r.start(ctx, w); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.connect(ctx); err != nil {
		return err
	}
	if w.Prepare != nil {
		if err := w.Prepare(ctx, r); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	r.choose(w.Contenders())
	if w.Play != nil {
		err = w.Play(ctx, r)
	} else {
		err = r.Turns(ctx, Part{Measure: func(ctx context.Context, one *Running) error { return w.Measure(ctx, r, one) }})
	}
	if w.Report != nil {
		fmt.Print(w.Report())
	} else {
		fmt.Print(r.medians())
	}
	return err
}

func (r *Run) start(ctx context.Context, w Workload) (err error) {
	config := cluster.Config{Dir: filepath.Join(r.Dir, "cluster"), Audit: true}
	if w.Cluster != nil {
		w.Cluster(&config)
	}
	if config.Binaries, err = cluster.FindBinaries(config.Components.Programs(), r.Bin); err != nil {
		return err
	}
	r.Cluster, err = cluster.Start(ctx, config)
	return err
}

func (r *Run) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.Cluster.Stop(ctx)
}

func (r *Run) connect(ctx context.Context) (err error) {
	if r.servers, err = serversIn(r.Dir); err != nil {
		return err
	}
	scheme, admin := kube.NewScheme(), r.Cluster.RESTConfig()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		return err
	}
	if r.API, err = client.NewWithWatch(admin, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if r.Cache, err = NewCache(ctx, admin, scheme); err != nil {
		return err
	}
	r.Log = &audit.Log{Path: r.Cluster.AuditLog(), Touch: func(ctx context.Context, mark string) error {
		return client.IgnoreNotFound(r.API.Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{}))
	}}
	return nil
}

// choose leaves out the contenders that -only does not name, and those without a program.
func (r *Run) choose(all []Contender) {
	for _, one := range all {
		if !r.selects(all, one) {
			continue
		}
		missing, present := r.missing(one)
		if missing != "" {
			fmt.Fprintf(os.Stderr, "%s is left out: there is no %s\n", one.Name, missing)
			continue
		}
		r.Contenders = append(r.Contenders, present)
	}
}

// Part is what all contenders do before the next part.
type Part struct {
	Name    string               // empty: a header with the contender's name is printed instead
	Skips   func(Contender) bool // nil for none
	Measure func(context.Context, *Running) error
}

// Turns starts each contender for each part, in all rounds, and measures it. The order of the
// contenders is reversed in every second round: the speed of the machine changes for all alike.
func (r *Run) Turns(ctx context.Context, parts ...Part) error {
	order := slices.Clone(r.Contenders)
	for round := range r.Rounds {
		for _, part := range parts {
			for _, one := range order {
				if part.Skips != nil && part.Skips(one) {
					continue
				}
				if err := r.turn(ctx, round, part, one); err != nil {
					return fmt.Errorf("%s: %w", one.Name, err)
				}
			}
		}
		slices.Reverse(order)
	}
	return nil
}

func (r *Run) turn(ctx context.Context, round int, part Part, one Contender) error {
	switch {
	case part.Name != "":
		fmt.Fprintf(os.Stderr, "%s: %s ...\n", one.Name, part.Name)
	case r.Rounds > 1:
		fmt.Printf("\nround %d, %s\n", round+1, one.Name)
	default:
		fmt.Printf("\n%s\n", one.Name)
	}
	running, err := r.Launch(ctx, one)
	if err != nil {
		return err
	}
	defer running.Kill()
	return part.Measure(ctx, running)
}

// rate is one measured rate of a contender.
type rate struct {
	what, contender string
	perSecond       float64
}

// Rate records a rate for the medians at the end.
func (r *Run) Rate(one *Running, what string, perSecond float64) {
	r.rates = append(r.rates, rate{what, one.Name, perSecond})
}

// medians returns the median of each rate over the rounds, and its ratio to that of the baseline.
func (r *Run) medians() string {
	if r.Rounds == 1 && len(r.Contenders) == 1 {
		return "" // printed already
	}
	rates, whats := map[string]map[string][]float64{}, []string(nil)
	for _, one := range r.rates {
		if rates[one.what] == nil {
			rates[one.what], whats = map[string][]float64{}, append(whats, one.what)
		}
		rates[one.what][one.contender] = append(rates[one.what][one.contender], one.perSecond)
	}
	baseline := ""
	if at := slices.IndexFunc(r.Contenders, func(c Contender) bool { return c.Baseline }); at >= 0 {
		baseline = r.Contenders[at].Name
	}
	var b strings.Builder
	for _, what := range whats {
		fmt.Fprintf(&b, "\n%s, median of rounds: %d\n", what, r.Rounds)
		for _, one := range r.Contenders {
			all := rates[what][one.Name]
			if len(all) == 0 {
				continue
			}
			fmt.Fprintf(&b, "  %-52s %6.0f/s", one.Name, Median(all))
			if base := rates[what][baseline]; len(base) > 0 && one.Name != baseline {
				fmt.Fprintf(&b, ", ratio %.2f to %s", Median(all)/Median(base), baseline)
			}
			if len(all) > 1 {
				fmt.Fprintf(&b, " (%.0f to %.0f)", slices.Min(all), slices.Max(all))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Median returns the upper median.
func Median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
