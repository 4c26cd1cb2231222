package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
)

// release is what manifests are rendered for.
var release = common.ReleaseOptions{Name: "purser", Namespace: "purser-system", Revision: 1, IsInstall: true}

// kubernetes is the version that manifests are rendered for: an older one has fewer of the objects.
const kubernetes = "v1.34.0"

// notes is the template that is printed and not applied.
const notes = "NOTES.txt"

// manifests are what a chart renders to.
type manifests struct {
	Objects string // as one YAML stream
	Notes   string
}

// render checks the values against the schema of the chart and returns its manifests, with the custom
// resources of the charts in it first, as an installation creates them. It removes from the chart what
// the values switch off.
func render(c *chart.Chart, values map[string]any) (m manifests, err error) {
	version, err := common.ParseKubeVersion(kubernetes)
	if err != nil {
		return m, err
	}
	cluster := common.DefaultCapabilities.Copy()
	cluster.KubeVersion = *version
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return m, err
	}
	all, err := util.ToRenderValues(c, values, release, cluster)
	if err != nil {
		return m, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return m, err
	}
	var b strings.Builder
	for _, crd := range c.CRDObjects() {
		fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", crd.Filename, strings.Trim(string(crd.File.Data), "-\n"))
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		switch {
		case strings.HasSuffix(name, notes):
			m.Notes = text
		case strings.TrimSpace(text) != "":
			fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", name, strings.Trim(text, "\n"))
		}
	}
	m.Objects = b.String()
	return m, nil
}
