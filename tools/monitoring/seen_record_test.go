package monitoring

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// minute is the step of the invented clock: how often Prometheus reads metrics and evaluates the rules.
const minute = time.Minute

// recorder reads the metrics of running roles on demand, with timestamps of an invented clock: no test waits
// for the hours of the rules. A series that is not there any more ends with a stale marker, as in
// Prometheus.
type recorder struct {
	keep  map[string]bool                          // names of metrics
	extra func(context.Context) map[string]float64 // of programs that do not run here

	mu      sync.Mutex
	minutes int                 // of the invented clock
	values  map[string][]string // by series, for each minute
	pages   map[string]string   // where roles serve, by name; the name is the label instance
}

func newRecorder(keep []string) *recorder {
	r := &recorder{keep: map[string]bool{}, values: map[string][]string{}, pages: map[string]string{}}
	for _, name := range keep {
		r.keep[name] = true
	}
	return r
}

// set has the recorder read a page from now on; an empty address ends that.
func (r *recorder) set(name, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pages[name] = "http://" + address + "/metrics"; address == "" {
		delete(r.pages, name)
	}
}

// read returns what the roles serve now.
func (r *recorder) read(ctx context.Context) map[string]float64 {
	r.mu.Lock()
	pages := maps.Clone(r.pages)
	r.mu.Unlock()
	found := map[string]float64{}
	if r.extra != nil {
		found = r.extra(ctx)
	}
	for name, url := range pages {
		maps.Copy(found, r.page(ctx, name, url))
	}
	return found
}

// record appends what was read for the next minutes of the invented clock.
func (r *recorder) record(found map[string]float64, minutes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range minutes {
		for series, value := range found {
			r.values[series] = append(r.upTo(r.values[series]), strconv.FormatFloat(value, 'g', -1, 64))
		}
		for series, values := range r.values {
			if _, is := found[series]; !is && len(values) == r.minutes && values[len(values)-1] != "stale" {
				r.values[series] = append(values, "stale")
			}
		}
		r.minutes++
	}
}

// upTo fills the minutes in which a series was not there.
func (r *recorder) upTo(values []string) []string {
	for len(values) < r.minutes {
		values = append(values, "_")
	}
	return values
}

// page returns the kept series of a page; none if it is not served.
func (r *recorder) page(ctx context.Context, name, url string) map[string]float64 {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		return nil
	}
	found := map[string]float64{}
	for family, metrics := range families {
		for _, m := range metrics.GetMetric() {
			set := map[string]string{"instance": name, "pod": name, "namespace": "purser-system"}
			for _, label := range m.GetLabel() {
				set[label.GetName()] = label.GetValue()
			}
			switch {
			case m.GetHistogram() != nil && r.keep[family+"_count"]:
				found[series(family+"_count", set)] = float64(m.GetHistogram().GetSampleCount())
			case m.GetCounter() != nil && r.keep[family]:
				found[series(family, set)] = m.GetCounter().GetValue()
			case m.GetGauge() != nil && r.keep[family]:
				found[series(family, set)] = m.GetGauge().GetValue() * ageing(family)
			}
		}
	}
	return found
}

// ageing is by how much the clock of the rules is faster than that of the roles: ages are in seconds of theirs.
func ageing(family string) float64 {
	if family == "purser_oldest_pending_claim_seconds" || family == "purser_capacity_oldest_answer_seconds" {
		return 60
	}
	return 1
}

// series writes a series in PromQL.
func series(name string, set map[string]string) string {
	var pairs []string
	for _, label := range slices.Sorted(maps.Keys(set)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", label, set[label]))
	}
	return name + "{" + strings.Join(pairs, ", ") + "}"
}

// sum adds the values of the series of a metric that have all of the labels, each as name="value".
func sum(found map[string]float64, name string, labels ...string) (total float64) {
	for series, value := range found {
		if strings.HasPrefix(series, name+"{") &&
			!slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(series, label) }) {
			total += value
		}
	}
	return total
}

// input returns what was read, in the form of Prometheus' own tests.
func (r *recorder) input() (text string, length time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "load %s\n", minute)
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		fmt.Fprintf(&b, "  %s %s\n", name, strings.Join(r.values[name], " "))
	}
	return b.String(), time.Duration(r.minutes) * minute
}

// firings evaluates the rules over what was read, in Prometheus' own engine, and returns when each alert
// fired first.
func firings(t *testing.T, input string, length time.Duration) map[string]time.Duration {
	t.Helper()
	suite, err := promqltest.NewLazyLoader(input, promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: promql,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close()
	suite.SubqueryInterval = minute
	query := rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage())
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: query, AppendableV2: suite.Storage(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: promql,
	})
	file := filepath.Join(root, "deploy", "monitoring", "alerts.yaml")
	groups, errs := manager.LoadGroups(minute, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, group := range groups {
		for _, rule := range group.Rules() {
			rule.(*rules.AlertingRule).SetRestored(true) // else it has no series ALERTS
		}
	}
	seen := map[string]time.Duration{}
	for at := time.Duration(0); at <= length; at += minute {
		now := time.Unix(0, 0).UTC().Add(at)
		suite.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range groups {
				group.Eval(suite.Context(), now)
			}
		})
		firing, err := query(suite.Context(), `count by (alertname) (ALERTS{alertstate="firing"})`, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, sample := range firing {
			name := sample.Metric.Get("alertname")
			if _, is := seen[name]; !is {
				seen[name] = at
			}
		}
	}
	return seen
}

// metricsOf returns the names of the metrics that the rules read.
func metricsOf(t *testing.T, all []expression) (names []string) {
	t.Helper()
	for _, e := range all {
		parsed, err := promql.ParseExpr(e.text)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				names = append(names, selector.Name)
			}
			return nil
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}
