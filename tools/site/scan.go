package main

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
)

// markdown reads what GitHub reads. The pages are our own, so that HTML in them is kept.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(html.WithUnsafe()),
)

var (
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	setAnchor = regexp.MustCompile(`<a id="([^"]+)">`)
)

// slugs names headings as GitHub does, so that links work there and here.
type slugs struct{ taken map[string]int }

func withSlugs() parser.ParseOption {
	return parser.WithContext(parser.NewContext(parser.WithIDs(&slugs{map[string]int{}})))
}

// Generate implements parser.IDs.
func (s *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	plain := regexp.MustCompile(`<[^>]*>|\]\([^)]*\)`).ReplaceAllString(string(value), "")
	slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(plain)), ""), " ", "-")
	n := s.taken[slug]
	s.taken[slug]++
	if n > 0 {
		slug = fmt.Sprintf("%s-%d", slug, n)
	}
	return []byte(slug)
}

// Put implements parser.IDs.
func (s *slugs) Put(value []byte) { s.taken[string(value)]++ }

// scan finds the title, the anchors, the images and the sections of a page.
func (p *page) scan() {
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			p.startSection(n)
		case *ast.RawHTML:
			p.anchor(n.Segments.Value(p.source))
		case *ast.HTMLBlock:
			p.anchor(n.Lines().Value(p.source))
		case *ast.Image:
			if file := p.resolve(string(n.Destination)); file != "" {
				p.images = append(p.images, file)
				n.Destination = []byte(relative(p.path, file))
			}
		case *ast.Text:
			p.add(n.Segment.Value(p.source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			p.add(n.Lines().Value(p.source))
		}
		return ast.WalkContinue, nil
	})
}

func (p *page) anchor(source []byte) {
	for _, set := range setAnchor.FindAllSubmatch(source, -1) {
		p.anchors = append(p.anchors, string(set[1]))
	}
}

func (p *page) startSection(heading *ast.Heading) {
	words := plainText(heading, p.source)
	if p.title == "" {
		p.title = words
	}
	id, _ := heading.AttributeString("id")
	anchor, _ := id.([]byte)
	p.anchors = append(p.anchors, string(anchor))
	p.sections = append(p.sections, section{Page: p.title, Heading: words, URL: output(p.path) + "#" + string(anchor)})
}

// add adds words to the section that they stand in.
func (p *page) add(words []byte) {
	if len(p.sections) > 0 {
		last := &p.sections[len(p.sections)-1]
		last.Text = strings.TrimSpace(last.Text + " " + strings.Join(strings.Fields(string(words)), " "))
	}
}

func plainText(of ast.Node, source []byte) string {
	var b bytes.Buffer
	_ = ast.Walk(of, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if words, is := n.(*ast.Text); is && entering {
			b.Write(words.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// group is the part of the navigation that a page stands in.
func group(name string) string {
	switch folder := path.Dir(name); folder {
	case ".", "docs":
		return ""
	default:
		return path.Base(folder)
	}
}
