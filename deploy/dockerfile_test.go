package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A tag can be moved to other content, so each base of the Dockerfile is an argument without a default
// that the build refuses unless it is a digest, or a digest itself.
func TestDockerfileBases(t *testing.T) {
	content, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1) {
		base := from[1]
		if base == "scratch" || strings.Contains(base, "@sha256:") {
			continue
		}
		name := strings.Trim(base, "${}")
		if base != "${"+name+"}" || !strings.Contains(text, "\nARG "+name+"\n") ||
			strings.Contains(text, "\nARG "+name+"=") || !strings.Contains(text, `case "$`+name+`" in *@sha256:*)`) {
			t.Errorf("FROM %s: neither a digest nor an argument that must be one", base)
		}
	}
}
