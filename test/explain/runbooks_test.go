package explain

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	command "github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/verdict"
)

var update = flag.Bool("update", false, "write docs/runbooks.md")

var runbooksPage = filepath.Join("..", "..", "docs", "runbooks.md")

const runbooksHead = `# Runbooks

One section for each [reason](reasons.md) that an administrator acts on: an event as it stands at the object, what
` + "`purser explain`" + ` says, and the fix. The examples are situations of the tests (test/explain), each from a public thread or a
page of these docs; your cluster has other names. Made by ` + "`make generate`" + `.

`

// runbook is an example of a reason.
type runbook struct {
	reason  verdict.Reason
	example situation
	event   string
	answer  string
	fix     []rules.Step
}

// runbooks returns an example for each reason that an administrator acts on, in alphabetical order: the first
// with an event, or else the first. A situation is an example of its first finding; of another finding only
// where no situation has that first.
func runbooks(t *testing.T) []runbook {
	t.Helper()
	base, all := readSituations(t)
	byReason, others := map[verdict.Reason]runbook{}, map[verdict.Reason]runbook{}
	for _, s := range all {
		path := s.dump(t, base)
		report := s.report(t, base)
		findings := report.Findings
		if report.Refused != nil {
			findings = append(findings, *report.Refused)
		}
		for i, f := range findings {
			if f.Actor != rules.Administrator || len(f.Fix) == 0 {
				continue
			}
			examples := byReason
			if i > 0 {
				examples = others
			}
			r := runbook{reason: f.Reason, example: s, event: s.event(f), fix: f.Fix}
			if had, ok := examples[r.reason]; ok && (had.event != "" || r.event == "") {
				continue
			}
			r.answer, _ = run(t, "explain", s.Explain, "-n", "shop", "--now", now, "--from", path)
			examples[r.reason] = r
		}
	}
	for reason, r := range others {
		if _, has := byReason[reason]; !has {
			byReason[reason] = r
		}
	}
	var sorted []runbook
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		sorted = append(sorted, byReason[reason])
	}
	return sorted
}

// event returns the event that a user sees: that of the decision, or else one of the situation's.
func (s situation) event(f rules.Finding) string {
	for _, o := range s.Objects {
		if o["kind"] == "Event" {
			kind, is := o["type"].(string)
			if !is {
				kind = "Warning"
			}
			return fmt.Sprintf("%s %v: %v", kind, o["reason"], o["message"])
		}
	}
	if f.Event == "" {
		return ""
	}
	kind := "Warning" // that of the attach-detach controller on pods is one of each decision
	if verdict.Describe(f.Decision).Severity == verdict.Normal {
		kind = "Normal"
	}
	return fmt.Sprintf("%s %s: %s", kind, f.Event, f.Words)
}

// page writes a section. A reason without an event says what explain reads instead.
func (r runbook) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\nMeaning and event: [%s](reasons.md#%s). Example: %s (%s).\n\n", r.reason, r.reason, strings.ToLower(string(r.reason)), r.example.Name, r.example.Thread)
	if r.event != "" {
		fmt.Fprintf(&b, "**Event**\n\n```text\n%s\n```\n\n", r.event)
	} else {
		b.WriteString("**Event**: none that names the cause; `explain` reads the fields below “Why”.\n\n")
	}
	fmt.Fprintf(&b, "**Explanation**\n\n```text\n$ purser explain %s -n shop\n%s\n```\n\n**Fix**\n\n", r.example.Explain, strings.TrimSpace(r.answer))
	for _, step := range r.fix {
		fmt.Fprintf(&b, "- %s\n", step.Text)
		if step.Command != "" {
			fmt.Fprintf(&b, "  `%s`\n", step.Command)
		}
		if step.Risk != "" {
			fmt.Fprintf(&b, "  Risk: %s\n", step.Risk)
		}
	}
	return b.String()
}

// docs/runbooks.md has the example of each reason, as explain prints it today.
func TestRunbooks(t *testing.T) {
	var b strings.Builder
	b.WriteString(runbooksHead)
	all := runbooks(t)
	withEvent := 0
	for i, r := range all {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(r.page())
		if r.event != "" {
			withEvent++
		}
	}
	t.Logf("%d reasons, %d with an event", len(all), withEvent)
	b.WriteString("\n## Where another acts\n\nThese have a Warning, and no section above:\n\n")
	actors := actorsOf(t)
	for _, reason := range verdict.All() {
		has := slices.ContainsFunc(all, func(r runbook) bool { return r.reason == reason })
		if verdict.Describe(reason).Severity == verdict.Warning && !has && withoutExample[reason] == "" {
			fmt.Fprintf(&b, "- %s: %s\n", linkTo(reason), actors[reason])
		}
	}
	b.WriteString("\n## Without an example\n\nThese have a Warning, and their meaning and advice on the page of reasons:\n\n")
	for _, reason := range slices.Sorted(maps.Keys(withoutExample)) {
		fmt.Fprintf(&b, "- %s: %s\n", linkTo(reason), withoutExample[reason])
	}
	if *update {
		if err := os.WriteFile(runbooksPage, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(runbooksPage)
	if err != nil || string(text) != b.String() {
		t.Errorf("docs/runbooks.md is not up to date: run make generate (%v)", err)
	}
}

// linkTo returns a link to the section of a reason.
func linkTo(reason verdict.Reason) string {
	return fmt.Sprintf("[%s](reasons.md#%s)", reason, strings.ToLower(string(reason)))
}

// actorsOf returns what the situations say of each reason of a finding or of its decision: who acts, or by
// which reason explain names it more precisely.
func actorsOf(t *testing.T) map[verdict.Reason]string {
	t.Helper()
	base, all := readSituations(t)
	actors := map[verdict.Reason]string{}
	note := func(reason verdict.Reason, text string) {
		if reason != "" && actors[reason] == "" {
			actors[reason] = text
		}
	}
	for _, s := range all {
		for _, f := range s.report(t, base).Findings {
			switch f.Actor {
			case rules.User:
				note(f.Reason, "the user acts")
			case rules.Itself:
				note(f.Reason, "it goes on by itself")
			default:
				note(f.Reason, "the "+string(f.Actor)+" acts")
			}
		}
	}
	for _, s := range all {
		for _, f := range s.report(t, base).Findings {
			note(f.Decision, "explain names it "+linkTo(f.Reason))
		}
	}
	return actors
}

// report returns the answer about the object of a situation.
func (s situation) report(t *testing.T, base []map[string]any) rules.Report {
	t.Helper()
	out, _ := run(t, "explain", s.Explain, "-n", "shop", "--now", now, "-o", "json", "--from", s.dump(t, base))
	var answer command.Answer
	if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Reports) != 1 {
		t.Fatalf("%s: %v: %s", s.Name, err, out)
	}
	return answer.Reports[0]
}

// withoutExample are reasons with a Warning that no situation has, each with why: docs/reasons.md has their
// meaning and advice.
var withoutExample = map[verdict.Reason]string{
	verdict.CleanupGivenUp:       "the claim is gone, so there is no object to explain; the event names the volume to look for",
	verdict.ContentShared:        "nothing to do: the content is removed, and nothing waits",
	verdict.GroupContentShared:   "nothing to do: the content is removed, and nothing waits",
	verdict.ReclaimPolicyUnknown: "the API server refuses a volume with such a policy",
	verdict.SnapshotRestoring:    "nothing to do at the snapshot: explain follows the claim that is restored from it",
	verdict.SourceNotReady:       "nothing to do at the claim: explain follows what the source waits for",
	verdict.VolumeAbandoned:      "the volume is gone, so there is no object to explain; the event has the handle to look for",
}

// Each reason with a Warning is in a situation, and so has a runbook or an answer for the user who acts on
// it, unless it is known to be without an example.
func TestWarningsHaveRunbooks(t *testing.T) {
	base, all := readSituations(t)
	covered := map[verdict.Reason]bool{}
	for _, s := range all {
		for _, f := range s.report(t, base).Findings {
			covered[f.Reason], covered[f.Decision] = true, true
		}
	}
	for _, reason := range verdict.All() {
		if verdict.Describe(reason).Severity != verdict.Warning {
			continue
		}
		if known := withoutExample[reason] != ""; covered[reason] == known {
			t.Errorf("%s has a Warning: in a situation %t, in withoutExample %t", reason, covered[reason], known)
		}
	}
}
