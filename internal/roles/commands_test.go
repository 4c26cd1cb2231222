package roles

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// Each command documents its codes, and ends with a documented one, whatever the mistake is.
func TestExitCodesAreDocumented(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	dump := filepath.Join(t.TempDir(), "dump.yaml")
	stuck := "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: shop}, spec: {storageClassName: none}, status: {phase: Pending}}"
	if err := os.WriteFile(dump, []byte(stuck), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]int{
		"version": 0, "version -o poem": 2, "version extra": 2, "completion zsh": 0, "completion tcsh": 2, "completion": 2,
		"explain --from " + dump + " pvc/c -n shop": 1, "explain --from " + dump + " pvc/other -n shop": 2,
		"tree --from " + dump + " pvc/c -n shop": 0, "tree --from " + dump + " pvc/other": 2, "dump --from " + dump: 0,
		"life --from " + dump + " pvc/other": 2, "record --role-endpoint here": 2,
		"df --kubeconfig none": 2, "df --sort colour": 2, "df -A -n shop": 2, "df data -A": 2, "df --warn 95": 2,
		"orphans --kubeconfig none": 2, "orphans --csi-address relative": 2, "orphans --pv-of h": 2, "orphans extra": 2,
		"grow": 2, "grow sts/db": 2, "grow deploy/db 1Gi": 2, "grow sts/db much": 2, "grow sts/db 0": 2,
		"grow sts/db 1Gi --yes --dry-run": 2, "grow sts/db 1Gi --kubeconfig none": 2,
		"check": 2, "check fast --size 0": 2, "check fast --skip everything": 2, "check fast --kubeconfig none": 2,
		"unused --days -1": 2, "unused --kubeconfig none": 2, "unused -o poem": 2,
		"controllers --http-endpoint here": 1, "up --zones=": 2, "driver stray": 2,
		"csi-attacher --feature-gates Nonsense=true": 255, "node --http-endpoint here": 1,
	}
	documented := map[string][]int{}
	for _, c := range newRoot(cli.Program{Out: io.Discard, Err: io.Discard}).Commands() {
		for _, code := range cli.ExitCodes(c) {
			documented[c.Name()] = append(documented[c.Name()], code.Number)
		}
		if !c.Hidden {
			cases[c.Name()+" --no-such-flag"] = 2
		}
	}
	for args, want := range cases {
		err := Execute(t.Context(), cli.Program{Name: "purser", Version: "v", Args: strings.Fields(args), Out: io.Discard, Err: io.Discard})
		if got := ExitCode(err); got != want {
			t.Errorf("%s: exit code %d, want %d (%v)", args, got, want, err)
		}
		if name, _, _ := strings.Cut(args, " "); !slices.Contains(documented[name], want) {
			t.Errorf("%s: the code %d is not documented; those of %s are %v", args, want, name, documented[name])
		}
	}
}

// Called as the plugin, the program has the commands alone, under the plugin's name; called as its completer, it
// completes.
func TestCalledAsPlugin(t *testing.T) {
	run := func(name string, args ...string) (string, error) {
		var out bytes.Buffer
		err := Execute(t.Context(), cli.Program{Name: name, Version: "v1", Args: args, Out: &out, Err: io.Discard})
		return out.String(), err
	}
	out, err := run("/usr/bin/kubectl-purser", "--help")
	if err != nil || strings.Contains(out, "csi-provisioner") || !strings.Contains(out, "kubectl purser [command]") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = run("/usr/bin/kubectl_complete-purser", "d")
	if err != nil || !strings.Contains(out, "df\t") || !strings.Contains(out, "dump\t") || strings.Contains(out, "driver") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err = run("kubectl-purser", "nothing"); ExitCode(err) != 2 || IsTold(err) {
		t.Errorf("an unknown command: %v", err)
	}
}

// The shell completes commands, flags and values.
func TestCompletionOfTheProgram(t *testing.T) {
	for _, tc := range []struct{ args, want, not string }{
		{"or", "orphans\t", "driver"},
		{"driver --endp", "--endpoint\t", "--state-dir"},
		{"df --sort=in", "inodes\n", "csi-"},
		{"explain -o ", "yaml\n", "perfetto"}, // those of the command alone
		{"check --skip sn", "snapshot\n", "delete"},
		{"completion ", "fish\n", "tcsh"},
		{"explain storagec", "storageclass/\n", "pvc/"},
	} {
		var out bytes.Buffer
		args := append([]string{"__complete"}, strings.Split(tc.args, " ")...)
		err := Execute(t.Context(), cli.Program{Name: "purser", Args: args, Out: &out, Err: io.Discard})
		if err != nil || !strings.Contains(out.String(), tc.want) || strings.Contains(out.String(), tc.not) {
			t.Errorf("%q: %v\n%s", tc.args, err, &out)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out bytes.Buffer
		err := Execute(t.Context(), cli.Program{Name: "purser", Args: []string{"completion", shell}, Out: &out, Err: io.Discard})
		if err != nil || !strings.Contains(out.String(), "__complete") {
			t.Errorf("%s: %v, %d bytes", shell, err, out.Len())
		}
	}
}
