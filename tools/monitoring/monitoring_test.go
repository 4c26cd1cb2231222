package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var root = filepath.Join("..", "..")

// expression is one in a file, and where.
type expression struct{ where, text string }

// everywhere are labels that Prometheus gives every metric, or a histogram its buckets.
var everywhere = []string{"job", "instance", "namespace", "pod", "le", model.MetricNameLabel}

// catalog are the labels of each metric that a role has: those in the reference, and those that the
// roles served in the tests of internal/roles.
func catalog(t *testing.T) map[string][]string {
	t.Helper()
	metrics := map[string][]string{}
	add := func(kind, name string, names []string) {
		metrics[name] = append(metrics[name], names...)
		if kind == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				metrics[name+suffix] = metrics[name]
			}
		}
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| ([^|]*) \\|")
	for _, m := range row.FindAllStringSubmatch(read(t, "docs", "reference", "metrics.md"), -1) {
		add(m[2], m[1], strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' }))
	}
	served := regexp.MustCompile(`(?m)^(\w+) (\w+)\{(.*?)\}`)
	for _, file := range []string{"metrics.txt", "controllers_metrics.txt"} {
		for _, m := range served.FindAllStringSubmatch(read(t, "test", "live", "testdata", file), -1) {
			add(m[1], m[2], strings.Split(m[3], ","))
		}
	}
	add("gauge", "kube_persistentvolume_status_phase", []string{"persistentvolume", "phase"}) // of kube-state-metrics
	if len(metrics) < 40 {
		t.Fatalf("%d metrics; has the form of the reference changed?", len(metrics))
	}
	return metrics
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alerts is the form of a rule file.
type alerts struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// query is an expression in a template of an annotation.
var query = regexp.MustCompile("query `([^`]*)`")

func ofAlerts(t *testing.T) (all []expression) {
	t.Helper()
	runbooks := read(t, "docs", "alerts.md")
	var file alerts
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy", "monitoring", "alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" ||
				rule.Annotations["description"] == "" {
				t.Errorf("%s: needs a severity, a summary and a description", rule.Alert)
			}
			anchor := "docs/alerts.md#" + strings.ToLower(rule.Alert)
			if !strings.HasSuffix(rule.Annotations["runbook_url"], anchor) ||
				!strings.Contains(runbooks, "### "+rule.Alert+"\n") {
				t.Errorf("%s: needs a section in docs/alerts.md, and runbook_url ends with %s", rule.Alert, anchor)
			}
			all = append(all, expression{rule.Alert, rule.Expr})
			for _, text := range rule.Annotations {
				for _, m := range query.FindAllStringSubmatch(text, -1) {
					all = append(all, expression{rule.Alert + ", in an annotation", m[1]})
				}
			}
		}
	}
	return all
}

// dashboard is what of Grafana's form is used.
type dashboard struct {
	UID        string
	Panels     []panel
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
}

type panel struct {
	ID      int
	Title   string
	Type    string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }
}

// variables of Grafana, as a value that they may have.
var variables = strings.NewReplacer(
	"$__rate_interval", "5m", "$__range", "1h", "$driver", ".*", "$namespace", ".*", "$class", ".*",
)

// labelValues is the query of a variable.
var labelValues = regexp.MustCompile(`^label_values\((.*), *(\w+)\)$`)

func ofDashboard(t *testing.T) (all []expression) {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "deploy", "monitoring", "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: needs an id of its own, a title and room", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			all = append(all, expression{p.Title, variables.Replace(target.Expr)})
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Query)
		if m == nil {
			t.Errorf("variable %s: %s", v.Name, v.Query)
			continue
		}
		all = append(all, expression{"variable " + v.Name, "count by (" + m[2] + ") (" + m[1] + ")"})
	}
	return all
}

// mistakes parses an expression and returns what no role has of it.
func mistakes(metrics map[string][]string, reasons map[string]bool, text string) (wrong []string) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	var known []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			has, ok := metrics[selector.Name]
			if !ok {
				wrong = append(wrong, "no role has "+selector.Name)
			}
			known = append(known, has...)
			for _, m := range selector.LabelMatchers {
				if !slices.Contains(has, m.Name) && !slices.Contains(everywhere, m.Name) {
					wrong = append(wrong, selector.Name+" has no label "+m.Name)
				}
				if m.Name == "reason" && m.Type == labels.MatchEqual && !reasons[m.Value] {
					wrong = append(wrong, "no reason is called "+m.Value)
				}
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range aggregate.Grouping {
				if !slices.Contains(known, label) && !slices.Contains(everywhere, label) {
					wrong = append(wrong, "nothing has the label "+label)
				}
			}
		}
		return nil
	})
	return wrong
}

func reasonNames(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if name, is := strings.CutPrefix(line, "### "); is {
			names[strings.TrimSpace(name)] = true
		}
	}
	if len(names) < 100 {
		t.Fatalf("docs/reasons.md has %d sections", len(names))
	}
	return names
}

// Every expression of the alerts and the dashboard is about what a role has.
func TestExpressions(t *testing.T) {
	metrics, reasons := catalog(t), reasonNames(t)
	for name, all := range map[string][]expression{"alerts.yaml": ofAlerts(t), "dashboard.json": ofDashboard(t)} {
		if len(all) < 10 {
			t.Errorf("%s has %d expressions", name, len(all))
		}
		for _, e := range all {
			for _, wrong := range mistakes(metrics, reasons, e.text) {
				t.Errorf("%s: %s: %s\n%s", name, e.where, wrong, e.text)
			}
		}
	}
}

// What the test above is to find.
func TestMistakes(t *testing.T) {
	metrics, reasons := catalog(t), reasonNames(t)
	for text, want := range map[string]string{
		`rate(purser_decisions_total[5m]`:                                "unclosed left parenthesis",
		`rate(purser_decision_total[5m])`:                                "no role has purser_decision_total",
		`sum by (class) (rate(purser_decisions_total[5m]))`:              "nothing has the label class",
		`purser_decisions_total{class="a"}`:                              "has no label class",
		`purser_decisions_total{reason="Maybe"}`:                         "no reason is called Maybe",
		`histogram_quantile(0.9, rate(purser_journal_bytes_bucket[5m]))`: "no role has purser_journal_bytes_bucket",
		`sum(purser_journal_bytes) by`:                                   "unexpected end of input",
	} {
		if got := mistakes(metrics, reasons, text); len(got) == 0 || !strings.Contains(strings.Join(got, "; "), want) {
			t.Errorf("%s: %q, want %s", text, got, want)
		}
	}
}
