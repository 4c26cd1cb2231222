package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindResources(t *testing.T) {
	t.Setenv(assetsEnv, "")
	empty, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, resourcesFolder, "a.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{file}, FindResources(empty, dir)); diff != "" {
		t.Error(diff)
	}
	if got := FindResources(empty); got != nil {
		t.Errorf("found %v in an empty folder", got)
	}
	t.Setenv(assetsEnv, dir)
	if diff := cmp.Diff([]string{file}, FindResources(empty)); diff != "" {
		t.Errorf("with %s: %s", assetsEnv, diff)
	}
}

// The kinds are served when Install returns, and a second Install changes nothing.
func TestInstall(t *testing.T) {
	files := FindResources(repositoryBin)
	if len(files) == 0 {
		t.Skip("there are no custom resources in bin/crds; run `make cluster-tools`")
	}
	c := start(t, realConfig(t))
	probe, err := newProbe(c.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer probe.close()
	ctx, cancel := context.WithTimeout(t.Context(), startBound)
	defer cancel()
	for range 2 {
		if err := c.Install(t.Context(), files...); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"snapshot.storage.k8s.io/v1/volumesnapshots", "groupsnapshot.storage.k8s.io/v1/volumegroupsnapshots"} {
			// The API server makes a kind's storage anew when a status write of its own follows, and
			// answers 429 meanwhile, which clients repeat.
			if err := probe.wait(ctx, "/apis/"+kind, c.crew.done); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	odd := filepath.Join(t.TempDir(), "odd.yaml")
	if err := os.WriteFile(odd, []byte("kind: Pod\nmetadata: {name: p}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Install(t.Context(), odd); err == nil || !strings.Contains(err.Error(), odd) {
		t.Errorf("a file without a CustomResourceDefinition: %v", err)
	}
}
