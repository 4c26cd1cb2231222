package quoted

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/roles"
	"github.com/purser-csi/purser/internal/roles/cli"
)

var root = filepath.Join("..", "..")

func all(t *testing.T) []Command {
	t.Helper()
	commands, err := All(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) < 150 {
		t.Errorf("only %d commands", len(commands))
	}
	return commands
}

// How commands are found in a page.
func TestOf(t *testing.T) {
	page := strings.Join([]string{
		"Say `make help`, `purser explain`, not `make` or `other thing`.", // 1
		"```", "make demo    # a comment", "helm install purser \\", "  --set a=b", "internal/  a folder", "```", // 2-7
		"```", "$ purser explain pvc/a > file", "first", "second", "$ kubectl get pvc &", "```", // 8-13
		"```", "purser tree KIND/NAME [-n NAMESPACE]   the objects", "```", // 14-16
		"```go", "make(x)", "make it", "```",
	}, "\n")
	want := []Command{
		{"p", 1, "make help", "", true},
		{"p", 1, "purser explain", "", true},
		{"p", 3, "make demo", "", false},
		{"p", 4, "helm install purser --set a=b", "", false},
		{"p", 9, "purser explain pvc/a", "first\nsecond\n", false},
		{"p", 12, "kubectl get pvc", "", false},
		{"p", 15, "purser tree KIND/NAME -n NAMESPACE", "", false},
	}
	if got := Of("p", page); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	c := Command{Text: `kubectl purser explain 'a b'`}
	if c.Program() != "kubectl purser" || !slices.Equal(c.Args(), []string{"explain", "a b"}) {
		t.Errorf("%q %q", c.Program(), c.Args())
	}
}

// Quoted targets and variables of make exist.
func TestMake(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all(t) {
		if c.Program() != "make" || strings.HasSuffix(c.Text, "-...") {
			continue
		}
		if err := CheckMake(string(makefile), c.Args()); err != nil {
			t.Errorf("%s: %v", c.At(), err)
		}
	}
	if CheckMake(string(makefile), []string{"nonsense"}) == nil || CheckMake(string(makefile), []string{"help", "NONSENSE=1"}) == nil {
		t.Error("what the Makefile does not have is accepted")
	}
}

// check parses a command line of purser without running it: with --help in front, all flags are parsed
// and the help is printed.
func check(t *testing.T, c Command) error {
	t.Helper()
	args := c.Args()
	if len(args) > 0 && args[0] == "help" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == strings.ToUpper(args[0]) { // ROLE stands for each
		return nil
	}
	execute := func(args ...string) error {
		return roles.Execute(t.Context(), cli.Program{Name: "purser", Args: args, Out: io.Discard, Err: io.Discard})
	}
	if err := execute("help", args[0]); err != nil {
		return err
	}
	err := execute(append([]string{args[0], "--help"}, args[1:]...)...)
	if err != nil && c.Inline && strings.Contains(err.Error(), "flag needs an argument") {
		return nil
	}
	return err
}

// Quoted roles, commands and flags of purser exist.
func TestPurser(t *testing.T) {
	for _, c := range all(t) {
		if c.Program() != "purser" {
			continue
		}
		if err := check(t, c); err != nil {
			t.Errorf("%s: %v", c.At(), err)
		}
	}
	for _, wrong := range []string{"purser explode", "purser up --zoness a", "purser explain --form x"} {
		if check(t, Command{Text: wrong}) == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// outputs are the commands whose output is compared to the letter, with the file that stands for the one
// that the page names.
var outputs = []struct{ page, command, file, stands string }{
	{"README.md", "purser explain pvc/data -n shop --from dump.yaml", "dump.yaml", "class-missing.yaml"},
	{"docs/life.md", "purser life --from record.jsonl.gz pvc/logbook", "record.jsonl.gz", "record.jsonl.gz"},
	{"docs/life.md", "purser life --from dump.json pvc/logbook", "dump.json", "dump.json"},
}

// The pages show what the commands print.
func TestOutputs(t *testing.T) {
	commands := all(t)
	for _, o := range outputs {
		i := slices.IndexFunc(commands, func(c Command) bool { return c.Page == o.page && c.Text == o.command })
		if i < 0 || commands[i].Output == "" {
			t.Errorf("%s does not quote %q with its output", o.page, o.command)
			continue
		}
		args := commands[i].Args()
		args[slices.Index(args, o.file)] = filepath.Join("testdata", o.stands)
		var out bytes.Buffer
		err := roles.Execute(t.Context(), cli.Program{Name: "purser", Args: args, Out: &out, Err: io.Discard})
		if err != nil && !roles.IsTold(err) {
			t.Errorf("%s: %v", commands[i].At(), err)
		}
		if got := strings.TrimSpace(out.String()); got != strings.TrimSpace(commands[i].Output) {
			t.Errorf("%s\nprints\n%s", commands[i].At(), got)
		}
	}
	for _, c := range commands {
		quoted := func(o struct{ page, command, file, stands string }) bool {
			return o.page == c.Page && o.command == c.Text
		}
		if c.Program() == "purser" && strings.TrimSpace(c.Output) != "" && !slices.ContainsFunc(outputs, quoted) && !isRun(c) {
			t.Errorf("%s: the output is compared with nothing; add a row to outputs", c.At())
		}
	}
}

// isRun reports whether a test that starts a cluster compares the output.
func isRun(c Command) bool {
	return strings.HasPrefix(c.Text, "purser up") || c.Text == "purser explain pvc/treasure" || c.Page == "docs/day-two.md"
}

// Paths in quoted commands of go, git and scripts exist.
func TestPaths(t *testing.T) {
	for _, c := range all(t) {
		for _, arg := range c.Words() {
			arg, _, _ = strings.Cut(arg, "/...")
			isOurs := strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "deploy/") || strings.HasPrefix(arg, "examples/") || strings.HasPrefix(arg, "tools/")
			if !isOurs || arg == "./cmd" && strings.Contains(c.Text, "cephcsi") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, arg)); err != nil {
				t.Errorf("%s: %v", c.At(), err)
			}
		}
	}
}

// notRun are commands of other programs that no test runs, by their beginning, each with the reason.
var notRun = map[string]string{
	"apt-get":                  "installs packages on the machine",
	"cd ":                      "into a clone of another project",
	"git clone":                "of another project",
	"go build -mod=vendor":     "of ceph-csi; make test-ceph does",
	"helm repo add ceph-csi":   "needs the chart repository of ceph-csi",
	"helm install ceph-csi":    "the same; test/house renders the values",
	"helm upgrade topolvm":     "needs the chart repository of topolvm",
	"sed ":                     "prepares values for the line after it",
	"crane push":               "crane is not built here; tools/release pushes with the same library",
	"for name in":              "the same",
	"tar ":                     "the same",
	"cosign sign-blob":         "names the form of a signature; tools/release verifies it with Sigstore's libraries",
	"cosign generate-key-pair": "names the form of a key; tools/release makes one with Sigstore's library",
	"crane auth login":         "stores credentials",
	"cosign verify":            "cosign is not built here; tools/release verifies with Sigstore's libraries",
	"sha256sum --check":        "tools/release checks the same file",
	"go run ./test/bench":      "measures for minutes",
	"go test":                  "is run by make test",
	"tools/crds.sh":            "is run by make cluster-tools",
	"helm install purser":      "test/kubelet does, with make test-install",
	"helm test":                "the same",
	"helm upgrade ":            "the same",
	"helm uninstall purser":    "the same",
	"helm rollback":            "test/kubelet installs one version",
}

// Each quoted command is run, parsed or compared by a test, or has a reason why not.
func TestEachIsRun(t *testing.T) {
	used := map[string]bool{}
	for _, c := range all(t) {
		switch c.Program() {
		case "make", "purser", "kubectl purser":
			continue
		case "kubectl": // test/e2e runs them
			continue
		}
		found := false
		for beginning := range notRun {
			if strings.HasPrefix(c.Text+" ", beginning) {
				found, used[beginning] = true, true
			}
		}
		if !found {
			t.Errorf("%s: no test runs it; run it, or add a reason to notRun", c.At())
		}
	}
	for beginning := range notRun {
		if !used[beginning] {
			t.Errorf("no page quotes %q any more", beginning)
		}
	}
}
