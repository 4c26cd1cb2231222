package house

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/purser-csi/purser"

// pkg is the output of `go list` for a package of this module.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
	Doc        string
}

// packages lists all packages of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	command := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Deps,Doc", module+"/...")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// pure are the rooms below the features that have no effects either: words, answers, and what
// several rules share.
var pure = []string{"csispec", "names", "objects", "printable", "secretref", "shell", "size", "topology", "verdict"}

// features are the rooms of one feature each: its rules, and the effects around them.
var features = []string{
	"attachdetach", "attacher", "binder", "capacity", "datasource", "daytwo", "ephemeral", "explain", "health", "journal", "livenessprobe", "populate", "protection", "provision",
	"reclaim", "registrar", "resize", "snapshot", "snapshotmetadata", "sources",
}

// room returns the group of packages that a package belongs to.
func room(path string) string {
	path = strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	path = strings.TrimPrefix(path, "internal/")
	folders := strings.Split(path, "/")
	switch {
	case slices.Contains(folders, "rules"):
		return "rules"
	case slices.Contains(pure, folders[0]):
		return "pure"
	case slices.Contains(features, folders[0]):
		return "features"
	default:
		return folders[0]
	}
}

// mayImport lists for each group of packages the other groups that it may import. docs/design.md
// has the diagram.
var mayImport = map[string][]string{
	"cmd":       {"roles"},
	"roles":     {"ui", "life", "record", "features", "reconcile", "handoff", "driver", "node", "cluster", "loopdev", "mount", "kube", "csirpc", "telemetry", "rules", "pure", "deploy"},
	"ui":        {"life", "features", "rules", "pure"},
	"record":    {"life", "features", "telemetry", "rules", "pure"},
	"life":      {"rules", "pure"},
	"features":  {"reconcile", "handoff", "kube", "csirpc", "telemetry", "rules", "pure"},
	"reconcile": {"telemetry", "pure"},
	"driver":    {"loopdev", "mount", "telemetry", "pure"},
	"node":      {"reconcile", "loopdev", "mount", "kube", "csirpc", "telemetry", "rules", "pure"},
	"cluster":   {},
	"kube":      {"rules", "pure"},
	"csirpc":    {"pure"},
	"handoff":   {"pure"},
	"telemetry": {"rules", "pure"},
	"loopdev":   {"mount"},
	"mount":     {},
	"deploy":    {},
	"rules":     {"pure"},
	"pure":      {"docs"},
	"docs":      {},
	"test":      {"ui", "life", "record", "roles", "features", "reconcile", "handoff", "driver", "node", "cluster", "loopdev", "mount", "kube", "csirpc", "telemetry", "rules", "pure", "deploy"},
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		from := room(p.ImportPath)
		allowed, known := mayImport[from]
		if !known {
			t.Errorf("%s is in the room %q, which the plan does not have; add it to docs/design.md and here", p.ImportPath, from)
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, module) {
				continue
			}
			if to := room(imported); to != from && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: %s may not use %s", p.ImportPath, imported, from, to)
			}
		}
	}
}

// rulesMayImport are the packages of other modules that rules may import: types and pure functions.
var rulesMayImport = []string{
	"bytes", "cmp", "compress/flate", "crypto/sha256", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt", "hash/fnv", "io", "iter", "maps", "math", "math/bits", "path", "regexp",
	"slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
	"k8s.io/api/", "k8s.io/apimachinery/pkg/api/resource", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/labels",
	"k8s.io/apimachinery/pkg/runtime/schema", "k8s.io/apimachinery/pkg/types", "k8s.io/apimachinery/pkg/util/resourceversion", "k8s.io/apimachinery/pkg/util/validation", "k8s.io/utils/ptr", "k8s.io/utils/third_party/forked/golang/btree",
	"github.com/kubernetes-csi/external-snapshotter/client/v8/apis/", "k8s.io/apimachinery/pkg/selection",
	// The tables and functions of in-tree migration, which every component of Kubernetes uses. They
	// take a logger, and get the zero value, which logs nothing.
	"k8s.io/csi-translation-lib", "github.com/go-logr/logr",
	"github.com/container-storage-interface/spec/lib/go/csi", "google.golang.org/grpc/codes", "google.golang.org/protobuf/proto",
}

// isPure reports whether a package must have no effects.
func isPure(path string) bool { return slices.Contains([]string{"rules", "pure", "life"}, room(path)) }

// make test-arm64 tests each package without effects.
func TestPureOnArm64(t *testing.T) {
	command := exec.Command("make", "--silent", "--no-print-directory", "--eval", "pure:; @go list $(PURE)", "pure")
	command.Dir = root
	command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") })
	out, err := command.Output()
	if err != nil {
		t.Fatalf("make: %v", err)
	}
	listed := strings.Fields(string(out))
	for _, p := range packages(t) {
		if isPure(p.ImportPath) && !slices.Contains(listed, p.ImportPath) {
			t.Errorf("%s has no effects, and is not in PURE of the Makefile", p.ImportPath)
		}
	}
}

func TestRulesArePure(t *testing.T) {
	for _, p := range packages(t) {
		if !isPure(p.ImportPath) {
			continue
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, module+"/") { // TestImportsPointDown judges these
				continue
			}
			if !slices.ContainsFunc(rulesMayImport, func(ok string) bool {
				return imported == ok || (strings.HasSuffix(ok, "/") && strings.HasPrefix(imported, ok))
			}) {
				t.Errorf("%s imports %s: rules decide and do nothing else", p.ImportPath, imported)
			}
		}
		checkPurity(t, p)
	}
}

// Kubernetes and etcd are started as programs and never linked. Packages that would import large
// parts of Kubernetes are forbidden too.
func TestForeignServersStayOut(t *testing.T) {
	forbidden := []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server", "k8s.io/apiserver", "sigs.k8s.io/sig-storage-lib-external-provisioner"}
	for _, p := range packages(t) {
		for _, dep := range p.Deps {
			for _, f := range forbidden {
				if strings.HasPrefix(dep, f) {
					t.Errorf("%s links %s", p.ImportPath, dep)
				}
			}
		}
	}
	out, err := exec.Command("go", "list", "-m", "all").Output()
	if err != nil {
		t.Fatalf("go list -m all: %v", err)
	}
	for line := range strings.SplitSeq(string(out), "\n") {
		name, _, _ := strings.Cut(line, " ")
		if name == "k8s.io/kubernetes" || strings.HasPrefix(name, "go.etcd.io/etcd/server") {
			t.Errorf("the module graph has %s", line)
		}
	}
}

// No package of the program imports text/template or html/template. Their Execute calls methods by
// name, so that the linker keeps every exported method of the program: docs/design.md.
func TestTemplatesStayOut(t *testing.T) {
	all := packages(t)
	var linked []string
	for _, p := range all {
		if strings.HasPrefix(p.ImportPath, module+"/cmd/") {
			linked = append(append(linked, p.ImportPath), p.Deps...)
		}
	}
	for _, p := range all {
		if !slices.Contains(linked, p.ImportPath) {
			continue
		}
		for _, template := range []string{"text/template", "html/template"} {
			if slices.Contains(p.Imports, template) {
				t.Errorf("%s imports %s: write pages with gomponents, and other texts with fmt", p.ImportPath, template)
			}
		}
	}
}

func TestEveryRoomSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment: say in doc.go what it decides and what it must not know", p.ImportPath)
		}
	}
}
