package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// host is where files that are no pages are shown.
const host = "https://github.com/purser-csi/purser"

// page is a page of the repository.
type page struct {
	path     string // in the repository
	source   []byte
	tree     ast.Node
	title    string
	anchors  []string
	sections []section
	images   []string // files that it shows, by their path in the repository
}

// section is what the search finds.
type section struct {
	Page    string `json:"p"` // title of the page
	Heading string `json:"h"`
	URL     string `json:"u"`
	Text    string `json:"t"`
}

// output is the path of a page in the site.
func output(name string) string {
	if name == "README.md" {
		return "index.html"
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// relative is the path from one page of the site to another file of it.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(output(from), "/")) + to
}

// collect reads README.md, the pages below docs, and those that they link to.
func collect(repository fs.FS) (map[string]*page, error) {
	pages := map[string]*page{}
	queue := []string{"README.md"}
	err := fs.WalkDir(repository, "docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			queue = append(queue, name)
		}
		return err
	})
	for ; len(queue) > 0 && err == nil; queue = queue[1:] {
		if pages[queue[0]] != nil {
			continue
		}
		var p *page
		if p, err = read(repository, queue[0]); err != nil {
			break
		}
		pages[p.path] = p
		for _, link := range p.links() {
			to, _, _ := strings.Cut(string(link.Destination), "#")
			if to = p.resolve(to); strings.HasSuffix(to, ".md") && exists(repository, to) {
				queue = append(queue, to)
			}
		}
	}
	return pages, err
}

func exists(repository fs.FS, name string) bool {
	_, err := fs.Stat(repository, name)
	return err == nil
}

func read(repository fs.FS, name string) (*page, error) {
	source, err := fs.ReadFile(repository, name)
	if err != nil {
		return nil, err
	}
	p := &page{path: name, source: source}
	p.tree = markdown.Parser().Parse(text.NewReader(source), withSlugs())
	p.scan()
	if p.title == "" {
		return nil, fmt.Errorf("%s has no heading", name)
	}
	return p, nil
}

// resolve returns the path in the repository that a link of the page names; empty for another host.
func (p *page) resolve(link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	if link == "" {
		return p.path
	}
	return path.Join(path.Dir(p.path), link)
}

// links returns the links of the page.
func (p *page) links() (all []*ast.Link) {
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, is := n.(*ast.Link); is && entering {
			all = append(all, link)
		}
		return ast.WalkContinue, nil
	})
	return all
}

// rewrite makes the links of a page those of the site.
func (p *page) rewrite(repository fs.FS, pages map[string]*page) error {
	var errs []error
	for _, link := range p.links() {
		name, anchor, _ := strings.Cut(string(link.Destination), "#")
		to := p.resolve(name)
		if to == "" {
			continue
		}
		target := pages[to]
		switch {
		case target != nil && anchor != "" && !slices.Contains(target.anchors, anchor):
			errs = append(errs, fmt.Errorf("%s links to %s, and %s has no such heading", p.path, link.Destination, to))
		case target == p:
			link.Destination = []byte("#" + anchor)
		case target != nil:
			link.Destination = []byte(relative(p.path, output(to)))
			if anchor != "" {
				link.Destination = append(link.Destination, "#"+anchor...)
			}
		case !exists(repository, to):
			errs = append(errs, fmt.Errorf("%s links to %s, which does not exist", p.path, link.Destination))
		default:
			link.Destination = []byte(host + "/blob/main/" + to)
		}
	}
	return errors.Join(errs...)
}
