package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/dop251/goja"
	"golang.org/x/net/html"
)

var repository = os.DirFS(filepath.Join("..", ".."))

// built is the site of this repository.
func built(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := build(repository)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// elements visits the elements of a page.
func elements(t *testing.T, content []byte, visit func(name string, attributes map[string]string)) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			attributes := map[string]string{}
			for _, a := range n.Attr {
				attributes[a.Key] = a.Val
			}
			visit(n.Data, attributes)
		}
	}
}

// Every link of every page leads to a file of the site, and to an anchor in it. Nothing is loaded from
// another host, so that the site works without a network.
func TestLinks(t *testing.T) {
	files := built(t)
	anchors := map[string][]string{}
	for name, content := range files {
		if strings.HasSuffix(name, ".html") {
			elements(t, content, func(_ string, a map[string]string) { anchors[name] = append(anchors[name], a["id"]) })
		}
	}
	checked := 0
	for name, content := range files {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		elements(t, content, func(element string, a map[string]string) {
			target, isLink := a["href"]
			if src, loads := a["src"]; loads {
				target, isLink = src, true
			}
			if !isLink {
				return
			}
			if strings.Contains(target, "://") {
				if element != "a" {
					t.Errorf("%s loads %s", name, target)
				}
				return
			}
			checked++
			file, anchor, _ := strings.Cut(target, "#")
			to := name
			if file != "" {
				to = path.Join(path.Dir(name), file)
			}
			if files[to] == nil {
				t.Errorf("%s: %s leads to no file", name, target)
			} else if anchor != "" && !slices.Contains(anchors[to], anchor) {
				t.Errorf("%s: %s leads to no anchor", name, target)
			}
		})
	}
	if checked < 2000 {
		t.Errorf("only %d links", checked)
	}
}

// Each page of docs is in the site and in the navigation of the first page.
func TestPages(t *testing.T) {
	files := built(t)
	for _, folder := range []string{".", "reference", "adr", "spec"} {
		pages, err := filepath.Glob(filepath.Join("..", "..", "docs", folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			name := path.Join("docs", folder, strings.TrimSuffix(filepath.Base(page), ".md")+".html")
			if files[name] == nil || !bytes.Contains(files["index.html"], []byte(`href="`+name+`"`)) {
				t.Errorf("%s is not in the site", name)
			}
		}
	}
}

// The same pages yield the same bytes.
func TestReproducible(t *testing.T) {
	first, then := built(t), built(t)
	for name, content := range first {
		if !bytes.Equal(content, then[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// The search finds a reason by its name first, and a flag by its text. It is run as a browser runs it.
func TestSearch(t *testing.T) {
	files := built(t)
	vm := goja.New()
	for _, name := range []string{"sections.js", "search.js"} {
		if _, err := vm.RunScript(name, string(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	search := func(query string) (found []section) {
		result, err := vm.RunString(fmt.Sprintf("JSON.stringify(find(%q))", query))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(result.String()), &found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := search("classmissing"); len(found) == 0 || !strings.HasSuffix(found[0].URL, "#classmissing") {
		t.Errorf("found %+v", found)
	}
	for _, query := range []string{"--enable-capacity", "VOLUME again", "purser up zones"} {
		if len(search(query)) == 0 {
			t.Errorf("%q is not found", query)
		}
	}
	if found := search("no page has zyxwvut"); len(found) != 0 {
		t.Errorf("found %+v", found)
	}
	if found := search("  "); len(found) != 0 {
		t.Errorf("blanks find %d sections", len(found))
	}
}

// A link that leads nowhere is an error; one to a file that is no page leads to the repository's host.
func TestBrokenLinks(t *testing.T) {
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("# Title\n\n" + text)} }
	for text, want := range map[string]string{
		"[a](docs/b.md#there)": "", "[a](docs/b.md#not-there)": "has no such heading", "[a](docs/c.md)": "does not exist",
		"[a](#title)": "", "[a](LICENSE)": "", "[a](https://example.com/x.md)": "",
	} {
		files, err := build(fstest.MapFS{"README.md": page(text), "docs/b.md": page("## There\n"), "LICENSE": page("")})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if strings.Contains(text, "LICENSE") && !bytes.Contains(files["index.html"], []byte(host+"/blob/main/LICENSE")) {
			t.Errorf("%s: %s", text, files["index.html"])
		}
	}
}
