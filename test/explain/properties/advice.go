package properties

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	rules "github.com/purser-csi/purser/internal/explain/rules"
)

// changing are the verbs of kubectl that change objects and can be tried.
var changing = []string{"patch", "annotate", "label", "delete", "taint", "uncordon", "scale"}

// Changes returns the words of a command behind kubectl, if it changes objects and can be tried;
// nil for others.
func Changes(line string) []string {
	words, err := Split(line)
	if err != nil || len(words) < 2 || words[0] != "kubectl" ||
		!slices.ContainsFunc(words[1:], func(word string) bool { return slices.Contains(changing, word) }) {
		return nil
	}
	return words[1:]
}

// Server is an API server on which commands are tried.
type Server struct {
	Kubectl    string // the path of the program
	Kubeconfig string
}

// Try returns what kubectl prints about a command that the server refuses, and nothing for one that it takes.
// Nothing is changed.
func (s Server) Try(ctx context.Context, words []string) string {
	words = append([]string{"--kubeconfig=" + s.Kubeconfig}, words...)
	command := exec.CommandContext(ctx, s.Kubectl, append(words, "--dry-run=server")...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		return err.Error() + ": " + out.String()
	}
	return ""
}

// Refused tries each command of the answers about a cluster that changes something, on the server that has
// the objects of the cluster.
func (s Server) Refused(ctx context.Context, c *rules.Cluster) (all []string) {
	tried := map[string]bool{}
	for ref := range refsOf(c) {
		if !slices.Contains(rules.Explainable, ref.Kind) || ref.Name == "" {
			continue
		}
		report := c.Explain(ref)
		findings := report.Findings
		if report.Refused != nil {
			findings = append(slices.Clone(findings), *report.Refused)
		}
		for _, f := range findings {
			for _, step := range f.Fix {
				words := Changes(string(step.Command))
				key := strings.Join(words, "\x00")
				if words == nil || tried[key] {
					continue
				}
				tried[key] = true
				if out := s.Try(ctx, words); out != "" {
					all = append(all, fmt.Sprintf("%s: %s: %s: %s", ref, f.Reason, step.Command, out))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}
