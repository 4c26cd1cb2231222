package monitoring

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// unitTests is what of promtool's form is used.
type unitTests struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []unitTest
}

type unitTest struct {
	Name        string
	Interval    model.Duration
	InputSeries []struct{ Series, Values string } `json:"input_series"`
	Expressions []expectation                     `json:"promql_expr_test"`
}

type expectation struct {
	Expr       string
	EvalTime   model.Duration `json:"eval_time"`
	ExpSamples []struct {
		Labels string
		Value  float64
	} `json:"exp_samples"`
}

var promql = parser.NewParser(parser.Options{})

// Each alert fires where it must and not before, in the engine of Prometheus.
func TestAlertsFire(t *testing.T) {
	var file unitTests
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy", "monitoring", "alerts_test.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, one := range file.Tests {
		tested[one.Name] = true
		t.Run(one.Name, func(t *testing.T) { one.run(t, time.Duration(file.EvaluationInterval)) })
	}
	var all alerts
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy", "monitoring", "alerts.yaml")), &all); err != nil {
		t.Fatal(err)
	}
	for _, group := range all.Groups {
		for _, rule := range group.Rules {
			if !tested[rule.Alert] {
				t.Errorf("%s: alerts_test.yaml has no test of it", rule.Alert)
			}
		}
	}
}

func (u unitTest) run(t *testing.T, every time.Duration) {
	input := "load " + u.Interval.String()
	for _, s := range u.InputSeries {
		input += "\n  " + s.Series + " " + s.Values
	}
	suite, err := promqltest.NewLazyLoader(input, promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: promql,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close()
	suite.SubqueryInterval = every
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), AppendableV2: suite.Storage(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: promql,
	})
	groups, errs := manager.LoadGroups(
		every, labels.EmptyLabels(), "", nil, false, filepath.Join(root, "deploy", "monitoring", "alerts.yaml"),
	)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, group := range groups {
		for _, rule := range group.Rules() {
			rule.(*rules.AlertingRule).SetRestored(true) // else it has no series ALERTS
		}
	}
	end := time.Unix(0, 0).UTC()
	for _, e := range u.Expressions {
		end = later(end, at(e.EvalTime))
	}
	for now := time.Unix(0, 0).UTC(); !now.After(end); now = now.Add(every) {
		suite.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range groups {
				group.Eval(suite.Context(), now)
			}
		})
		for _, e := range u.Expressions {
			if at(e.EvalTime).Equal(now) {
				e.check(t, suite, now)
			}
		}
	}
}

// check compares what an expression yields.
func (e expectation) check(t *testing.T, suite *promqltest.LazyLoader, now time.Time) {
	query := rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage())
	found, err := query(suite.Context(), e.Expr, now)
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]float64{}, map[string]float64{}
	for _, sample := range found {
		got[sample.Metric.String()] = sample.F
	}
	for _, sample := range e.ExpSamples {
		names, err := promql.ParseMetric(sample.Labels)
		if err != nil {
			t.Fatal(err)
		}
		want[names.String()] = sample.Value
	}
	if !maps.Equal(got, want) {
		t.Errorf("after %s: %s\nwant %s", e.EvalTime, printed(got), printed(want))
	}
}

func at(d model.Duration) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(d)) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func printed(samples map[string]float64) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		lines = append(lines, fmt.Sprintf("%s %g", name, samples[name]))
	}
	return strings.Join(lines, ", ")
}
