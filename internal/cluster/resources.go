package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/yaml"
)

// resourcesFolder is beside the programs, filled by tools/build.sh.
const resourcesFolder = "crds"

// FindResources returns the files with CustomResourceDefinitions beside the programs: those of
// $KUBEBUILDER_ASSETS where it is set, else those of the first of dirs that has any. It returns
// none where there are none: a cluster can do without.
func FindResources(dirs ...string) []string {
	if assets := os.Getenv(assetsEnv); assets != "" {
		dirs = append([]string{assets}, dirs...)
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, resourcesFolder, "*.yaml"))
		if err == nil && len(files) > 0 {
			return files
		}
	}
	return nil
}

// definition is what the installation needs of a CustomResourceDefinition.
type definition struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Group    string
		Names    struct{ Plural string }
		Versions []struct {
			Name   string
			Served bool
		}
	}
}

// Install applies the CustomResourceDefinitions of the files, one in each, and returns when the API
// server serves their kinds. Those that the cluster has already are brought up to date.
func (c *Cluster) Install(ctx context.Context, files ...string) error {
	if len(files) == 0 {
		return nil
	}
	probe, err := newProbe(c.admin)
	if err != nil {
		return err
	}
	defer probe.close()
	began := time.Now()
	c.plan.cfg.Waiting("custom resources")
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	var served []string
	for _, file := range files {
		paths, err := probe.install(ctx, file)
		if err != nil {
			return fmt.Errorf("installing the custom resource of %s: %w", file, err)
		}
		served = append(served, paths...)
	}
	for _, path := range served {
		if err := probe.wait(ctx, path, c.crew.done); err != nil {
			return err
		}
	}
	c.finished(fmt.Sprintf("custom resources (%d)", len(files)), began)
	return nil
}

// install applies one file, and returns the paths under which its kind will be served.
func (p *probe) install(ctx context.Context, file string) (served []string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var d definition
	if err := yaml.Unmarshal(content, &d); err != nil {
		return nil, err
	}
	if d.Kind != "CustomResourceDefinition" || d.Metadata.Name == "" {
		return nil, fmt.Errorf("kind is %q, name %q: want one named CustomResourceDefinition", d.Kind, d.Metadata.Name)
	}
	if err := p.apply(
		ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+d.Metadata.Name, content,
	); err != nil {
		return nil, err
	}
	for _, version := range d.Spec.Versions {
		if version.Served {
			served = append(served, "/apis/"+d.Spec.Group+"/"+version.Name+"/"+d.Spec.Names.Plural+"?limit=1")
		}
	}
	return served, nil
}

// apply is a server-side apply of the object at a path. Its manifest may stand as a YAML document
// of its own.
func (p *probe) apply(ctx context.Context, path string, manifest []byte) error {
	manifest = bytes.TrimPrefix(manifest, []byte("---\n"))
	url := p.host + path + "?fieldManager=purser-cluster&force=true"
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, bytes.NewReader(manifest))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/apply-patch+yaml")
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && !slices.Contains([]int{http.StatusOK, http.StatusCreated}, resp.StatusCode) {
		err = errors.New(resp.Status + ": " + string(bytes.TrimSpace(body)))
	}
	return err
}
