package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the module.
var root = filepath.Join("..", "..")

func text(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.Join(path...)))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// found returns the matches of the pattern's group.
func found(pattern, in string) (all []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(in, -1) {
		all = append(all, match[1])
	}
	return all
}

func TestImageIsBuiltWithTheGoOfTheModule(t *testing.T) {
	want := found(`(?m)^go (\d+\.\d+)`, text(t, "go.mod"))
	if got := found(`inspect golang:(\d+\.\d+)`, text(t, "deploy", "Dockerfile")); !slices.Equal(got, want) {
		t.Errorf("deploy/Dockerfile builds with Go %q, go.mod says %q", got, want)
	}
}

// The image build sends and copies each folder that the program has packages in.
func TestImageIsBuiltFromAllOfTheProgram(t *testing.T) {
	copied := found(`(?m)^COPY (\w+) \w+$`, text(t, "deploy", "Dockerfile"))
	sent := found(`(?m)^!(\w+)$`, text(t, "deploy", "Dockerfile.dockerignore"))
	for _, p := range packages(t) {
		if p.ImportPath != module+"/cmd/purser" {
			continue
		}
		for _, path := range append(p.Deps, p.ImportPath) {
			inside, ours := strings.CutPrefix(path, module+"/")
			folder, _, _ := strings.Cut(inside, "/")
			if ours && (!slices.Contains(copied, folder) || !slices.Contains(sent, folder)) {
				t.Errorf("%s: deploy/Dockerfile copies %q, and %q are sent to the builder", path, copied, sent)
			}
		}
	}
}

// The driver's image has every program whose absence the driver reports as an error.
func TestImageHasTheProgramsOfTheDriver(t *testing.T) {
	installed := strings.Fields(strings.Join(found(`apt-get install (.*) \\`, text(t, "deploy", "Dockerfile")), " "))
	locked := found(`(?m)^amd64 (\S+) `, text(t, "deploy", "driver-packages.lock"))
	files, err := filepath.Glob(filepath.Join(root, "internal", "driver", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	needed := 0
	for _, file := range files {
		source := text(t, strings.TrimPrefix(file, root))
		for _, name := range append(found(`packaged: "([^"]+)"`, source), found(`lookUp\("[^"]+", "([^"]+)"\)`, source)...) {
			needed++
			if !slices.Contains(installed, name) {
				t.Errorf("%s needs the package %s, the image has %q", file, name, installed)
			}
			if !slices.Contains(locked, name) {
				t.Errorf("%s needs the package %s, which deploy/driver-packages.lock has not", file, name)
			}
		}
	}
	if needed < 4 {
		t.Errorf("found %d packages that the driver needs", needed)
	}
}
