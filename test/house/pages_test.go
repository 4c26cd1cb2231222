package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	sourcePath = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+/?$`)
	identifier = regexp.MustCompile(`\.[A-Z]\w*$`)
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageAnchor = regexp.MustCompile(`<a id="([^"]+)">`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// A path in backticks in a page or a package's doc.go exists. Such a path begins with a directory of
// the repository or of internal/. docs/spec cites paths of upstream's repositories.
func TestCitedPathsExist(t *testing.T) {
	eachFile(t, func(name, content string) {
		if !strings.HasSuffix(name, ".md") && path.Base(name) != "doc.go" || strings.HasPrefix(name, "docs/spec/") {
			return
		}
		for _, cited := range citedPaths(content) {
			if first, _, _ := strings.Cut(cited, "/"); !exists(first) && !exists("internal", first) {
				continue
			}
			if !exists(cited) && !exists("internal", cited) && !exists(path.Dir(name), cited) {
				t.Errorf("%s cites %s, which does not exist", name, cited)
			}
		}
	})
}

// citedPaths returns what looks like a path of the repository in the inline code of a page. It
// leaves out built files, and paths with a part in capitals, which stands for a name.
func citedPaths(content string) []string {
	var paths []string
	for _, code := range inlineCode.FindAllStringSubmatch(content, -1) {
		cited := strings.TrimSuffix(identifier.ReplaceAllString(code[1], ""), "/")
		capitals := func(part string) bool { return strings.ToUpper(part) == part && strings.ToLower(part) != part }
		parts := strings.FieldsFunc(cited, func(r rune) bool { return r == '/' || r == '.' })
		if sourcePath.MatchString(cited) && !strings.HasPrefix(cited, "bin/") && !slices.ContainsFunc(parts, capitals) {
			paths = append(paths, cited)
		}
	}
	return paths
}

func exists(parts ...string) bool {
	_, err := os.Stat(filepath.Join(append([]string{root}, parts...)...))
	return err == nil
}

// A link between pages leads to a file, and to a heading or an anchor in it.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, links := map[string]string{}, map[string][]string{}
	eachFile(t, func(name, content string) {
		if strings.HasSuffix(name, ".md") {
			pages[name] = content
			for _, link := range linkTarget.FindAllStringSubmatch(content, -1) {
				links[name] = append(links[name], link[1])
			}
		}
	})
	for name, targets := range links {
		for _, target := range targets {
			if strings.Contains(target, "://") {
				continue
			}
			file, anchor, hasAnchor := strings.Cut(target, "#")
			to := name
			if file != "" {
				to = path.Join(path.Dir(name), file)
			}
			if !exists(to) || hasAnchor && !slices.Contains(anchors(pages[to]), anchor) {
				t.Errorf("%s links to %s, which does not exist", name, target)
			}
		}
	}
}

// anchors returns the anchors of a page: those that it sets, and those of its headings.
func anchors(page string) []string {
	var all []string
	for _, set := range pageAnchor.FindAllStringSubmatch(page, -1) {
		all = append(all, set[1])
	}
	for _, line := range heading.FindAllStringSubmatch(page, -1) {
		text := pageAnchor.ReplaceAllString(strings.ReplaceAll(line[1], "</a>", ""), "")
		slug := notInSlug.ReplaceAllString(strings.ToLower(text), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

// The tree of packages in docs/design.md names directories that exist, and all of them in the parts
// of the tree that have many.
func TestDesignListsThePackages(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "design.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "## Packages\n\n```\n")
	tree, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatal("docs/design.md has no tree of packages")
	}
	listed := listedDirectories(tree)
	for _, name := range listed {
		if !exists(name) {
			t.Errorf("docs/design.md lists %s, which does not exist", name)
		}
	}
	for _, parent := range []string{".", "internal", "internal/driver", "test"} {
		entries, err := os.ReadDir(filepath.Join(root, parent))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := path.Join(parent, entry.Name())
			known := slices.ContainsFunc(listed, func(l string) bool { return l == name || strings.HasPrefix(l, name+"/") })
			if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && name != "bin" && !known {
				t.Errorf("docs/design.md does not list %s", name)
			}
		}
	}
}

// listedDirectories returns the directories of an indented tree, as paths.
func listedDirectories(tree string) []string {
	line := regexp.MustCompile(`^( *)([\w./-]+)/(?: |$)`)
	var paths, parents []string
	var indents []int
	for text := range strings.Lines(tree) {
		match := line.FindStringSubmatch(strings.TrimRight(text, "\n"))
		if match == nil {
			continue
		}
		for len(indents) > 0 && indents[len(indents)-1] >= len(match[1]) {
			indents, parents = indents[:len(indents)-1], parents[:len(parents)-1]
		}
		indents, parents = append(indents, len(match[1])), append(parents, match[2])
		paths = append(paths, path.Join(parents...))
	}
	return paths
}
