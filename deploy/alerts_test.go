package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/purser-csi/purser/internal/telemetry"
)

// words are the identifiers of an expression.
var (
	words  = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	noName = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\bby \([^)]*\)`) // values, label matchers, ranges, groupings
)

// language are the words of the expressions that are no metrics.
var language = map[string]bool{"max": true, "sum": true, "rate": true, "increase": true, "or": true}

// Every metric in the alert rules is one that a role serves. The test knows names and brackets; it
// does not parse the language.
func TestAlertsUseServedMetrics(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	served := servedMetrics()
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s: needs a severity, a summary and a description", rule.Alert)
			}
			if strings.Count(rule.Expr, "(") != strings.Count(rule.Expr, ")") {
				t.Errorf("%s: brackets of %s", rule.Alert, rule.Expr)
			}
			for _, word := range words.FindAllString(noName.ReplaceAllString(rule.Expr, ""), -1) {
				if !language[word] && !served[word] {
					t.Errorf("%s: no role serves %s", rule.Alert, word)
				}
			}
		}
	}
}

// servedMetrics are the names of the metrics as Prometheus stores them.
func servedMetrics() map[string]bool {
	names := map[string]bool{}
	for _, m := range append(telemetry.Ours(), telemetry.Upstream...) {
		names[m.Name] = true
		if m.Kind == "histogram" {
			names[m.Name+"_bucket"], names[m.Name+"_sum"], names[m.Name+"_count"] = true, true, true
		}
	}
	return names
}
