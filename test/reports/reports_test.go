package reports

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// atOnce is how many scripts run in parallel. They mostly wait, so it does not depend on the processors.
const atOnce = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", atOnce) // it is a number
	}
	os.Exit(m.Run())
}

// sayWaitsAfter takes the place of the minute after which a wait is said.
const sayWaitsAfter = "3s"

// nodeName is the name of the only node, and the driver's id of it.
const nodeName = "purser"

// TestReports runs all scripts, and then waits until everything of them is deleted.
func TestReports(t *testing.T) {
	bin, err := stage.Bin()
	if err != nil {
		t.Skip(err)
	}
	together, alone := scripts(t)
	c := startControlPlane(t, bin)
	t.Run("scripts", func(t *testing.T) {
		for _, kind := range kinds(together) {
			t.Run(kind.name, func(t *testing.T) {
				t.Parallel()
				testscript.Run(t, c.params(kind.files))
			})
		}
	})
	t.Run("alone", func(t *testing.T) {
		for _, kind := range kinds(alone) {
			for _, file := range kind.files { // one Run waits for its script
				t.Run(kind.name, func(t *testing.T) { testscript.Run(t, c.params([]string{file})) })
			}
		}
	})
	t.Run("deleted", func(t *testing.T) {
		for _, s := range c.ended() {
			t.Run(s.kind+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				s.mustBeGone(t)
			})
		}
	})
}

// aloneLine is the line of a script that changes what the scripts share.
var aloneLine = regexp.MustCompile(`(?m)^# alone: \S`)

// scripts returns the files of all scripts: those that run in parallel, and those that run by
// themselves.
func scripts(t *testing.T) (together, alone []string) {
	t.Helper()
	all, err := filepath.Glob("*/*.txtar")
	if err != nil || len(all) == 0 {
		t.Fatalf("no scripts */*.txtar here: %v", err)
	}
	for _, file := range all {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(content), "# ") {
			t.Errorf("%s: begin with comments that say what happened and what must hold", file)
		}
		if aloneLine.Match(content) {
			alone = append(alone, file)
		} else {
			together = append(together, file)
		}
	}
	return together, alone
}

// kind is a folder of scripts.
type kind struct {
	name  string
	files []string
}

func kinds(files []string) (all []kind) {
	for _, file := range files { // sorted
		name := filepath.Dir(file)
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, kind{name: name})
		}
		last := &all[len(all)-1]
		last.files = append(last.files, file)
	}
	return all
}

// controlPlane is the `up` that all scripts share.
type controlPlane struct {
	*stage.Stage
	driver *fakeDriver

	begun scriptList
}

// startControlPlane starts the driver and `up`. Its logs stay when a script fails.
func startControlPlane(t *testing.T, bin string) *controlPlane {
	t.Helper()
	dir, err := os.MkdirTemp("", "up-") // short: the kernel allows 107 bytes for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are in %s", filepath.Join(dir, "d", "logs"))
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c := &controlPlane{driver: newFakeDriver()}
	socket := c.driver.serve(t, dir)
	c.Stage, err = stage.Start(t.Context(), stage.Config{
		Bin: bin, DataDir: filepath.Join(dir, "d"), Socket: socket,
		Args: []string{"--csi-address", socket, "--node-name", nodeName, "--say-waits-after", sayWaitsAfter},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// params has what testscript needs for some scripts.
func (c *controlPlane) params(files []string) testscript.Params {
	return testscript.Params{
		Files: files, Cmds: commands(), RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error { return c.begin(env) },
	}
}

// scriptKey is the key of the [script] in the values of testscript.
type scriptKey struct{}

// begin creates the namespace and the classes of a script, and has them deleted at its end.
func (c *controlPlane) begin(env *testscript.Env) error {
	test, ok := env.T().(testing.TB)
	if !ok {
		return errors.New("testscript no longer passes the test")
	}
	parts := strings.Split(test.Name(), "/") // TestReports/scripts/KIND/NAME
	s := &script{plane: c, kind: parts[len(parts)-2], name: parts[len(parts)-1], dir: env.WorkDir}
	s.namespace = namespaceOf(s.kind, s.name)
	kubeconfig := filepath.Join(env.WorkDir, ".kubeconfig")
	if err := c.writeKubeconfig(kubeconfig, s.namespace); err != nil {
		return err
	}
	env.Values[scriptKey{}] = s
	for name, value := range map[string]string{
		"NS": s.namespace, "CLASS": s.namespace, "SNAPCLASS": s.namespace, "GROUPCLASS": s.namespace,
		"DRIVER": driverName, "NODE": nodeName, "KUBECONFIG": kubeconfig, "HOME": env.WorkDir,
	} {
		env.Setenv(name, value)
	}
	// Objects are deleted even if the script has failed or the test's context has ended.
	ctx := context.WithoutCancel(test.Context())
	c.begun.add(s)
	env.Defer(func() { s.end(ctx, test) })
	return s.create(ctx)
}

// namespaceOf returns a short name, since names of objects are derived from it.
func namespaceOf(kind, name string) string {
	hash := fnv.New32a()
	fmt.Fprint(hash, kind, "/", name)
	return fmt.Sprintf("r-%s-%04x", name[:min(len(name), 24)], hash.Sum32()&0xffff)
}

// writeKubeconfig writes the administrator's kubeconfig, with another default namespace.
func (c *controlPlane) writeKubeconfig(path, namespace string) error {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		return err
	}
	for _, at := range config.Contexts {
		at.Namespace = namespace
	}
	return clientcmd.WriteToFile(*config, path)
}

// ended returns the scripts that have run, in the order of their names.
func (c *controlPlane) ended() []*script {
	all := c.begun.all()
	slices.SortFunc(all, func(a, b *script) int { return strings.Compare(a.kind+"/"+a.name, b.kind+"/"+b.name) })
	return all
}
