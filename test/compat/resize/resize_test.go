package resize

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/compat/scenario"
	"github.com/purser-csi/purser/test/compat/sidecar"
	"github.com/purser-csi/purser/test/e2e/stage"
)

//go:embed scenarios
var files embed.FS

//go:embed differences.yaml
var differences []byte

const (
	expands  = csi.ControllerServiceCapability_RPC_EXPAND_VOLUME
	modifies = csi.ControllerServiceCapability_RPC_MODIFY_VOLUME
	writers  = csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
)

// drivers are the scripted drivers, each with the flags of the resizer beside it.
func drivers() []sidecar.Sidecar {
	pace := []string{"--workers=30", "--retry-interval-start=300ms", "--retry-interval-max=1m", "--http-endpoint=", "--kube-api-qps=1000", "--kube-api-burst=2000"}
	all := []sidecar.Sidecar{
		{Driver: controller("csi.example.com", expands, modifies)},
		{Driver: controller("multi.example.com", expands, writers)},
		{Driver: controller("plain.example.com", expands), Args: []string{"-handle-volume-inuse-error=false"}},
		{Driver: controller("named.example.com", modifies), Args: []string{"-extra-modify-metadata"}},
		{Driver: controller("ebs.csi.aws.com", expands)},
		{Driver: sidecar.Driver{Name: "node.example.com", Node: []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_EXPAND_VOLUME}}},
	}
	for i := range all {
		all[i].Args = slices.Concat(pace, all[i].Args)
	}
	return all
}

func controller(name string, capabilities ...csi.ControllerServiceCapability_RPC_Type) sidecar.Driver {
	return sidecar.Driver{Name: name, Controller: capabilities}
}

// upstream and ours are the two sides.
func upstream() sidecar.Side {
	side := sidecar.Side{Name: "upstream", Sidecars: drivers()}
	for i := range side.Sidecars {
		side.Sidecars[i].Program = "upstream-csi-resizer"
	}
	return side
}

func ours() sidecar.Side {
	side := sidecar.Side{Name: "purser", Sidecars: drivers()}
	for i := range side.Sidecars {
		side.Sidecars[i].Program = "purser"
		side.Sidecars[i].Args = slices.Insert(side.Sidecars[i].Args, 0, "csi-resizer")
	}
	return side
}

func load(t *testing.T) []scenario.Scenario {
	t.Helper()
	folder, err := fs.Sub(files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	all, err := scenario.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// some is the part that is played unless COMPAT=whole.
var some = regexp.MustCompile(`^(expand-(by|node-s|out|recovers|uncertain-then|in-use|start-f|zero|size)|modify-(to|late|inf|uncertain-then))`)

func TestScenarios(t *testing.T) {
	bin, err := stage.Bin()
	if err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "upstream-csi-resizer")); err != nil {
		t.Skip("upstream-csi-resizer is not built; run 'make tools'")
	}
	root, err := stage.Root()
	if err != nil {
		t.Fatal(err)
	}
	known, err := outcome.ReadList(differences, func(page string) (string, error) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		return string(text), err
	})
	if err != nil {
		t.Fatal(err)
	}
	chosen, whole := load(t), os.Getenv("COMPAT") == "whole"
	if len(chosen) < 40 {
		t.Errorf("there are %d scenarios", len(chosen))
	}
	if !whole {
		chosen = slices.DeleteFunc(chosen, func(s scenario.Scenario) bool { return !some.MatchString(s.Name) })
	}
	if only := os.Getenv("RESIZE_ONLY"); only != "" {
		chosen = slices.DeleteFunc(load(t), func(s scenario.Scenario) bool { return !regexp.MustCompile(only).MatchString(s.Name) })
	}
	r, err := sidecar.Suite{
		Bin: bin, Dir: t.TempDir(), Scenarios: chosen, Sides: [2]sidecar.Side{upstream(), ours()}, Known: known,
		Parallel: 24, Calm: 2 * time.Second,
	}.Play(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if whole {
		r.Unused = known.Unused()
	}
	t.Log("\n" + sidecar.Text(r))
	if r.Failed() {
		t.Error("something is worse, or upstream does not do what a scenario expects")
	}
}
