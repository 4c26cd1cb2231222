package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// link is an entry of the navigation.
type link struct {
	Title, URL string
	Here       bool
}

// menu is a group of the navigation.
type menu struct {
	Name  string
	Links []link
}

// view is what the layout shows.
type view struct {
	Title, Root string
	Menus       []menu
	Content     template.HTML
}

// build returns the files of the site by their path.
func build(repository fs.FS) (map[string][]byte, error) {
	pages, err := collect(repository)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	var errs []error
	var sections []section
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		p := pages[name]
		errs = append(errs, p.rewrite(repository, pages))
		sections = append(sections, p.sections...)
		for _, image := range p.images {
			content, err := fs.ReadFile(repository, image)
			errs = append(errs, err)
			files[image] = content
		}
		content, err := p.render(pages)
		errs = append(errs, err)
		files[output(name)] = content
	}
	for _, name := range []string{"style.css", "search.js"} {
		content, err := assets.ReadFile("assets/" + name)
		errs = append(errs, err)
		files[name] = content
	}
	index, err := json.Marshal(sections)
	// A script is read from a file without a server; JSON is not.
	files["sections.js"] = slices.Concat([]byte("const sections = "), index, []byte(";\n"))
	return files, errors.Join(append(errs, err)...)
}

func (p *page) render(pages map[string]*page) ([]byte, error) {
	var content, whole bytes.Buffer
	if err := markdown.Renderer().Render(&content, p.source, p.tree); err != nil {
		return nil, err
	}
	err := layout.Execute(&whole, view{
		Title: p.title, Root: relative(p.path, ""), Menus: p.menus(pages),
		Content: template.HTML(content.String()), //nolint:gosec // made of our own pages
	})
	return whole.Bytes(), err
}

// menus lists all pages: those of the first level first, then each folder.
func (p *page) menus(pages map[string]*page) []menu {
	byGroup := map[string][]link{}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		byGroup[group(name)] = append(byGroup[group(name)], link{
			Title: pages[name].title, URL: relative(p.path, output(name)), Here: name == p.path,
		})
	}
	var menus []menu
	for _, name := range slices.Sorted(maps.Keys(byGroup)) {
		slices.SortStableFunc(byGroup[name], func(a, b link) int {
			return strings.Compare(first(a)+strings.ToLower(a.Title), first(b)+strings.ToLower(b.Title))
		})
		menus = append(menus, menu{name, byGroup[name]})
	}
	return menus
}

// first has the page that the site opens with stand before the others.
func first(l link) string {
	if strings.HasSuffix(l.URL, "index.html") {
		return "\x00"
	}
	return ""
}
