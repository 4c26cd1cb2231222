package snapshot

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/compat/explained"
	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/explain/properties"
)

//go:embed differences.yaml
var differences []byte

// pairing says which programs are the snapshot-controller and the csi-snapshotter.
type pairing struct {
	name                      string
	ourController, ourSidecar bool
}

var pairings = []pairing{
	{"upstream's", false, false},
	{"our snapshot-controller with upstream's csi-snapshotter", true, false},
	{"upstream's snapshot-controller with our csi-snapshotter", false, true},
	{"ours", true, true},
}

// some matches the scenarios that are played unless COMPAT=whole.
var some = regexp.MustCompile(`^(ready-|removed-delete|after-internal$|after-deadline|uncertain|class-a|class-c|claim-r|static-l|static-u|secret-comes|policy|group-removed|group-ready-after|group-c|group-m)`)

// Our snapshot-controller with upstream's csi-snapshotter, upstream's with ours, and both of ours
// have the same outcome as both of upstream's.
func TestHalves(t *testing.T) {
	bin, err := stage.Bin()
	if err != nil {
		t.Skip(err)
	}
	for _, program := range []string{"upstream-csi-snapshotter", "upstream-snapshot-controller"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			t.Skip(program + " is not built; run 'make tools'")
		}
	}
	ctrllog.SetLogger(logr.Discard())
	known := list(t)
	chosen, whole := append(scenarios(), groupScenarios()...), os.Getenv("COMPAT") == "whole"
	if len(chosen) < 40 {
		t.Errorf("there are %d scenarios", len(chosen))
	}
	pattern := some
	if only := os.Getenv("SNAPSHOT_ONLY"); only != "" {
		pattern = regexp.MustCompile(only)
	}
	pairs := pairings
	if !whole {
		chosen = slices.DeleteFunc(chosen, func(s scenario) bool { return !pattern.MatchString(s.name) })
		pairs = pairings[:3]
	}
	var want map[string]outcome.Outcome
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			began := time.Now()
			got := p.play(t, bin, chosen)
			t.Logf("%d scenarios in %s", len(chosen), time.Since(began).Round(100*time.Millisecond))
			if want == nil {
				want = got
				return
			}
			compare(t, settled(t, bin, chosen, want, got, known), got, known)
		})
	}
	if whole {
		for _, entry := range known.Unused() {
			t.Errorf("the list of differences explains nothing for %s %v", entry.Scenario, entry.Lines)
		}
	}
}

// settled is what upstream's programs leave, where scenarios that differ unexpectedly are played again by
// them alone: under load the first run can end before upstream has finished. Ours has one attempt.
func settled(t *testing.T, bin string, chosen []scenario, want, got map[string]outcome.Outcome, known outcome.List) map[string]outcome.Outcome {
	t.Helper()
	var again []scenario
	for _, one := range chosen {
		if _, unlisted := known.Judge(one.name, outcome.Difference(want[one.name], got[one.name])); len(unlisted) > 0 {
			again = append(again, one)
		}
	}
	if len(again) == 0 {
		return want
	}
	t.Logf("upstream's programs play %d scenarios again", len(again))
	want = maps.Clone(want)
	maps.Copy(want, pairings[0].play(t, bin, again))
	return want
}

func list(t *testing.T) outcome.List {
	t.Helper()
	root, err := stage.Root()
	if err != nil {
		t.Fatal(err)
	}
	known, err := outcome.ReadList(differences, func(page string) (string, error) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		return string(text), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func compare(t *testing.T, want, got map[string]outcome.Outcome, known outcome.List) {
	t.Helper()
	equal, better := 0, 0
	for name, one := range want {
		lines := outcome.Difference(one, got[name])
		explained, unlisted := known.Judge(name, lines)
		switch {
		case len(lines) == 0:
			equal++
		case len(unlisted) == 0:
			better++
			for _, e := range explained {
				if e.Is != outcome.Better {
					t.Logf("%s: %s, %s", name, e.Is, e.Where)
				}
			}
		default:
			t.Errorf("%s (- upstream's):\n%s", name, strings.Join(unlisted, "\n"))
		}
	}
	t.Logf("%d equal, %d listed, of %d", equal, better, len(want))
}

// atOnce is how many scenarios are played in parallel; they mostly wait.
const atOnce = 24

// play plays all scenarios on a cluster of its own, and returns what each left.
func (p pairing) play(t *testing.T, bin string, chosen []scenario) map[string]outcome.Outcome {
	t.Helper()
	o := p.open(t, bin)
	outcomes := map[string]outcome.Outcome{}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, one := range chosen {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			s := newScene(t, o.client, o.live, one.name, o.drivers)
			one.play(s)
			if s.problem != nil {
				t.Errorf("%s: %v", one.name, s.problem)
				s.problem = nil
			}
			result, err := s.result()
			if err != nil {
				t.Errorf("%s: %v", one.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[one.name] = result
		})
	}
	all.Wait()
	problems, err := explained.Live(t.Context(), o.advice, o.live)
	if err != nil {
		t.Error(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	return outcomes
}

// opened is a running cluster.
type opened struct {
	client  client.Client // reads from a cache
	live    client.Reader
	advice  properties.Server // where the advice of explain is tried
	drivers [3]*driver
}

// open starts a cluster with the programs of the pairing and three drivers.
func (p pairing) open(t *testing.T, bin string) opened {
	t.Helper()
	dir, err := os.MkdirTemp("", "compat-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the logs are in", dir)
			return
		}
		os.RemoveAll(dir)
	})
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), bin)
	if err != nil {
		t.Skip(err)
	}
	server, err := cluster.Start(t.Context(), cluster.Config{Dir: filepath.Join(dir, "cluster"), Binaries: binaries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(t.Context()) })
	if err := server.Install(t.Context(), cluster.FindResources(bin)...); err != nil {
		t.Fatal(err)
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(server.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	c := cached(t, server.RESTConfig(), scheme)
	// Upstream's sidecar drops a content from its queue if a retry comes before its watch shows its
	// own write. The resync enqueues it again; ours does not need it.
	common := []string{
		"--kubeconfig=" + server.Kubeconfig(), "--retry-interval-start=300ms", "--retry-interval-max=1s", "--resync-period=2s",
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--worker-threads=30",
	}
	launch(t, dir, bin, p.ourController, "snapshot-controller", common)
	drivers := [3]*driver{newDriver(mainDriver, false), newDriver(listDriver, true), newDriver(standardDriver, false)}
	for _, d := range drivers {
		launch(t, dir, bin, p.ourSidecar, "csi-snapshotter", append(slices.Clone(common), "--csi-address="+d.serve(t, dir), "--extra-create-metadata"))
	}
	advice := properties.Server{Kubectl: filepath.Join(bin, "kubectl"), Kubeconfig: server.Kubeconfig()}
	return opened{c, live, advice, drivers}
}

// cached is a client that reads from the watches of its own: scenarios poll, and many are played at
// once.
func cached(t *testing.T, config *rest.Config, scheme *runtime.Scheme) client.Client {
	t.Helper()
	watches, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = watches.Start(t.Context()) }() // ends with the test
	c, err := client.New(config, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: watches}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// launch starts one program until the test ends.
func launch(t *testing.T, dir, bin string, ours bool, role string, args []string) {
	t.Helper()
	path := filepath.Join(bin, "upstream-"+role)
	if ours {
		path, args = filepath.Join(bin, "purser"), append([]string{role}, args...)
	}
	log, err := os.CreateTemp(dir, role+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the child has its own
	program, err := stage.Launch(stage.Command{Path: path, Args: append(args, "--v=4"), Output: log, Env: []string{"KUBECONFIG="}})
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", role, err))
	}
	t.Cleanup(program.Kill)
}
