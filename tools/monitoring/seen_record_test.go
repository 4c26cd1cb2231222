package monitoring

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
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

// tick is how often metrics are read, and how often the rules are evaluated.
const tick = time.Second

// recorder reads the metrics of running roles, as Prometheus does: a series that is not there any more
// ends with a stale marker.
type recorder struct {
	keep map[string]bool // names of metrics

	mu     sync.Mutex
	ticks  int
	values map[string][]string // by series, for each tick
	pages  map[string]string   // where roles serve, by name; the name is the label instance
	extra  func() map[string]float64
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

// run reads until ctx ends.
func (r *recorder) run(ctx context.Context) {
	every := time.NewTicker(tick)
	defer every.Stop()
	for {
		r.read(ctx)
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *recorder) read(ctx context.Context) {
	r.mu.Lock()
	pages, extra := maps.Clone(r.pages), r.extra
	r.mu.Unlock()
	found := map[string]float64{}
	if extra != nil {
		found = extra()
	}
	for name, url := range pages {
		maps.Copy(found, r.page(ctx, name, url))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for series, value := range found {
		r.values[series] = r.upTo(r.values[series])
		r.values[series] = append(r.values[series], strconv.FormatFloat(value, 'g', -1, 64))
	}
	for series, values := range r.values {
		if _, is := found[series]; !is && len(values) == r.ticks {
			r.values[series] = append(values, "stale")
		}
	}
	r.ticks++
}

// last returns the largest present value of a metric.
func (r *recorder) last(name string) (most float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for series, values := range r.values {
		if len(values) == r.ticks && len(values) > 0 && strings.HasPrefix(series, name+"{") {
			if value, err := strconv.ParseFloat(values[len(values)-1], 64); err == nil {
				most = max(most, value)
			}
		}
	}
	return most
}

// upTo fills the ticks in which a series was not there.
func (r *recorder) upTo(values []string) []string {
	for len(values) < r.ticks {
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
				found[series(family, set)] = m.GetGauge().GetValue()
			}
		}
	}
	return found
}

// series writes a series in PromQL.
func series(name string, set map[string]string) string {
	var pairs []string
	for _, label := range slices.Sorted(maps.Keys(set)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", label, set[label]))
	}
	return name + "{" + strings.Join(pairs, ", ") + "}"
}

// input returns what was read, in the form of Prometheus' own tests.
func (r *recorder) input() (text string, length time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "load %s\n", tick)
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		fmt.Fprintf(&b, "  %s %s\n", name, strings.Join(r.values[name], " "))
	}
	return b.String(), time.Duration(r.ticks) * tick
}

// scale is by how much the times of the rules are shortened: an hour is a minute.
const scale = 60

// Durations of the rules: `for`, ranges, and ages that are compared with seconds.
var (
	waits  = regexp.MustCompile(`(?m)^(\s+for: )(\S+)$`)
	ranges = regexp.MustCompile(`\[(\d+[smhd])\]`)
	ages   = regexp.MustCompile(`(purser_oldest_pending_claim_seconds|purser_capacity_oldest_answer_seconds)\) > (\d+)`)
)

// scaled shortens the times of the rules; what they say is otherwise unchanged.
func scaled(t *testing.T, text string) string {
	t.Helper()
	short := func(duration string) string {
		d, err := model.ParseDuration(duration)
		if err != nil {
			t.Fatal(err)
		}
		return model.Duration(max(time.Duration(d)/scale, tick)).String()
	}
	text = waits.ReplaceAllStringFunc(text, func(s string) string {
		m := waits.FindStringSubmatch(s)
		return m[1] + short(m[2])
	})
	text = ranges.ReplaceAllStringFunc(text, func(s string) string {
		d, err := model.ParseDuration(ranges.FindStringSubmatch(s)[1])
		if err != nil {
			t.Fatal(err)
		}
		// A rate needs several readings; the retries of a failing call are up to half a minute apart.
		return "[" + model.Duration(max(time.Duration(d)/scale, 20*tick)).String() + "]"
	})
	return ages.ReplaceAllStringFunc(text, func(s string) string {
		m := ages.FindStringSubmatch(s)
		seconds, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s) > %d", m[1], seconds/scale)
	})
}

// firings evaluates the rules over what was read, in Prometheus' own engine, and returns when each alert
// fired first.
func firings(t *testing.T, ruleText, input string, length time.Duration) map[string]time.Duration {
	t.Helper()
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(file, []byte(ruleText), 0o600); err != nil {
		t.Fatal(err)
	}
	suite, err := promqltest.NewLazyLoader(input, promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: promql,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close()
	suite.SubqueryInterval = tick
	query := rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage())
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: query, AppendableV2: suite.Storage(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: promql,
	})
	groups, errs := manager.LoadGroups(tick, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, group := range groups {
		for _, rule := range group.Rules() {
			rule.(*rules.AlertingRule).SetRestored(true) // else it has no series ALERTS
		}
	}
	seen := map[string]time.Duration{}
	for at := time.Duration(0); at <= length; at += tick {
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
