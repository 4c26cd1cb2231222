package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/purser-csi/purser/test/quoted"
)

// workflow is what of GitHub's workflow files is used; another field is an error.
type workflow struct {
	Name        string            `json:"name"`
	On          map[string]any    `json:"on"`
	Permissions map[string]string `json:"permissions"`
	Concurrency map[string]any    `json:"concurrency"`
	Jobs        map[string]struct {
		RunsOn      string            `json:"runs-on"`
		Minutes     int               `json:"timeout-minutes"`
		Environment string            `json:"environment"`
		Permissions map[string]string `json:"permissions"`
		Env         map[string]string `json:"env"`
		Steps       []struct {
			Name string            `json:"name"`
			Uses string            `json:"uses"`
			With map[string]any    `json:"with"`
			Env  map[string]string `json:"env"`
			Run  string            `json:"run"`
		} `json:"steps"`
	} `json:"jobs"`
}

var (
	makeCall = regexp.MustCompile(`(?m)(?:^|&& |\$ )make ([^\n|&]*)`)
	pinned   = regexp.MustCompile(`^[\w.-]+/[\w./-]+@(v\d+|[0-9a-f]{40})$`)
)

func readWorkflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	all := map[string]workflow{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		// YAML 1.1 reads the key `on` as true.
		content = regexp.MustCompile(`(?m)^on:`).ReplaceAll(content, []byte(`"on":`))
		if err := yaml.UnmarshalStrict(content, &w); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		all[filepath.Base(file)] = w
	}
	return all
}

// A workflow has what GitHub needs to start it, asks for the permissions that it uses, and puts no
// expression into a script, where its value would be code.
func TestWorkflowsAreWellFormed(t *testing.T) {
	for file, w := range readWorkflows(t) {
		if w.Name == "" || len(w.On) == 0 || len(w.Jobs) == 0 || w.Permissions["contents"] != "read" {
			t.Errorf("%s needs name, on, jobs, and permissions with contents: read", file)
		}
		for name, job := range w.Jobs {
			if job.RunsOn == "" || job.Minutes == 0 || len(job.Steps) == 0 {
				t.Errorf("%s: job %s needs runs-on, timeout-minutes and steps", file, name)
			}
			for i, step := range job.Steps {
				if (step.Uses == "") == (step.Run == "") {
					t.Errorf("%s: step %d of %s needs one of uses and run", file, i+1, name)
				}
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: %q has no version", file, step.Uses)
				}
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s: %q has an expression; pass it in env", file, step.Run)
				}
			}
		}
	}
}

// What a workflow runs are targets of the Makefile, with its variables, so that a change of one is one
// of the other. The workflows run what CONTRIBUTING asks of a change.
func TestWorkflowsCallTargets(t *testing.T) {
	var called []string
	for file, w := range readWorkflows(t) {
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				for _, call := range makeCall.FindAllStringSubmatch(step.Run, -1) {
					c := quoted.Command{Text: "make " + call[1]}
					if err := quoted.CheckMake(text(t, "Makefile"), c.Args()); err != nil {
						t.Errorf("%s: %s: %v", file, c.Text, err)
					}
					called = append(called, c.Args()[0])
				}
			}
		}
	}
	for _, target := range []string{"check", "test", "sim", "test-arm64", "release-verify", "site", "release", "release-check", "release-push"} {
		if !slices.Contains(called, target) {
			t.Errorf("no workflow runs make %s", target)
		}
	}
}
