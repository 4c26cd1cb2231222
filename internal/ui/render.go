package ui

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/verdict"
)

//go:embed pages/*.html
var pageFiles embed.FS

// page is what the templates get.
type page struct {
	Name   string // of the template of its main part
	Nav    string // of the page in the navigation
	Title  string
	Source string // the title of the state
	Time   time.Time
	Live   bool
	Report bool // it is in a file
	Single bool // the file has no other page
	CanAdd bool // files may be opened
	Query  string
	Notes  []string
	Unread []string
	Body   any
}

// templates are those of pages. They escape what they write for the place where it stands: names and
// messages come from users of the cluster.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"address": func(ref explain.Ref) template.URL { return template.URL(addressOf(ref)) }, // it is encoded
	"hasPage": func(ref explain.Ref) bool { return hasPage(ref.Kind) && ref.Name != "" },
	"node":    func(name string) explain.Ref { return explain.Ref{Kind: explain.Node, Name: name} },
	"short":   func(kind explain.Kind) string { return kind.Short() },
	"id":      idOf,
	"age":     age, "clock": clock, "moment": moment, "took": took, "bytes": sizeText, "counted": counted,
	"sentence": sentence, "who": who, "actorTitle": actorTitle,
	"advice":  verdict.Advice,
	"known":   verdict.IsDocumented,
	"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"about":   func(f explain.Finding, now time.Time) findingPart { return findingPart{f, now} },
	"row":     rowOf,
	"answer":  func(r explain.Report, now time.Time) answerPart { return answerPart{r, now} },
}).ParseFS(pageFiles, "pages/*.html"))

// findingPart is what the template of a finding gets.
type findingPart struct {
	explain.Finding

	Now time.Time
}

// answerPart is what the template of an answer gets.
type answerPart struct {
	explain.Report

	Now time.Time
}

// Used returns the users that are named.
func (a answerPart) Used() []explain.Use { return firstOf(mostNamed, a.Users) }

// MoreUsers returns how many users are not named.
func (a answerPart) MoreUsers() int { return len(a.Users) - len(a.Used()) }

// causePart is what the template of a cause gets.
type causePart struct {
	Cause  cause
	Now    time.Time
	Report bool
	Alone  bool // it was asked for
}

func rowOf(p page, c cause) causePart {
	body, isBoard := p.Body.(boardBody)
	return causePart{c, p.Time, p.Report, isBoard && body.Cause == c.ID}
}

// mostNamed is how many objects of a cause are named.
const mostNamed = 100

// Named returns the objects that are named.
func (c causePart) Named() []explain.Ref { return firstOf(mostNamed, c.Cause.Objects) }

// More returns how many objects are not named.
func (c causePart) More() int { return len(c.Cause.Objects) - len(c.Named()) }

// firstOf returns the first n elements.
func firstOf[T any](n int, all []T) []T { return all[:min(n, len(all))] }

// write writes a page: the whole document, or the main part alone.
func (p page) write(to io.Writer, name string) error {
	var text strings.Builder
	if err := templates.ExecuteTemplate(&text, name, p); err != nil {
		return fmt.Errorf("page %s: %w", p.Name, err)
	}
	// Characters without a glyph are escaped, as on a terminal: they could reverse a line or hide a
	// part of it.
	_, err := io.WriteString(to, printable.Text(text.String()))
	return err
}

// Main returns the main part of the page.
func (p page) Main() (template.HTML, error) {
	var text strings.Builder
	err := templates.ExecuteTemplate(&text, p.Name, p)
	return template.HTML(text.String()), err // a template has written it
}
