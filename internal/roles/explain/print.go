package explain

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	core "github.com/purser-csi/purser/internal/core/explain"
)

// style turns the parts of an answer into terminal text.
type style struct{ bold, bad, good, dim, off string }

var (
	plain    = style{}
	coloured = style{bold: "\x1b[1m", bad: "\x1b[31m", good: "\x1b[32m", dim: "\x1b[2m", off: "\x1b[0m"}
)

// printer writes answers as text of a width.
type printer struct {
	strings.Builder
	width int
	style style
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(&p.Builder, format+"\n", args...) }

// report prints the four parts of the answer about one object.
func (p *printer) report(r core.Report) {
	s := p.style
	switch r.State {
	case core.Well:
		p.line("%s%s%s  %swell%s", s.bold, r.Object, s.off, s.good, s.off)
		p.paragraph("  ", "", r.Summary+".")
		if r.Next != "" {
			p.paragraph("  ", "Next: ", r.Next+".")
		}
	case core.Unknown:
		p.line("%s%s%s  cannot tell", s.bold, r.Object, s.off)
		p.paragraph("  ", "", r.Summary+".")
	case core.Stuck:
		p.line("%s%s%s  %sstuck%s", s.bold, r.Object, s.off, s.bad, s.off)
		p.paragraph("  ", "", r.Summary+".")
		for i, f := range r.Findings {
			p.line("")
			if len(r.Findings) > 1 {
				p.line("%s%d of %d%s", s.bold, i+1, len(r.Findings), s.off)
			}
			p.finding(f)
		}
	}
	p.unread(r.Unread)
}

func (p *printer) unread(texts []string) {
	if len(texts) == 0 {
		return
	}
	p.line("")
	for _, text := range texts {
		p.paragraph(p.style.dim+"Note: ", "", text+"."+p.style.off)
	}
}

func (p *printer) finding(f core.Finding) {
	p.paragraph("It waits for  ", "", f.WaitsFor+".")
	if f.Words != "" {
		label := "Its event     "
		if f.Event == "" {
			label = "Its log       "
		}
		p.paragraph(label, "", f.Words)
	}
	for i, e := range f.Evidence {
		label := "              "
		if i == 0 {
			label = "Why           "
		}
		p.paragraph(label, "", evidenceText(e))
	}
	for i, step := range f.Fix {
		label := "              "
		if i == 0 {
			label = "What to do    "
		}
		p.paragraph(label, "", step.Text+".")
		if step.Command != "" {
			p.line("                %s%s%s", p.style.bold, step.Command, p.style.off)
		}
		if step.Risk != "" {
			p.paragraph("                ", "Risk: ", step.Risk+".")
		}
	}
	p.paragraph("Who           ", "", whoText(f)+".")
	p.line("Reason        %s", f.Reason)
}

func evidenceText(e core.Evidence) string {
	text := fmt.Sprintf("%s: %s is %s", e.Object, e.Field, e.Value)
	if strings.HasPrefix(e.Field, "event ") {
		text = fmt.Sprintf("%s, %s: %s", e.Object, e.Field, e.Value)
	}
	if e.Wanted != "" {
		text += "; expected " + e.Wanted
	}
	return text
}

func whoText(f core.Finding) string {
	if f.Actor != core.Itself {
		return "the " + string(f.Actor)
	}
	if f.Until != nil {
		return "no one: it goes on by itself, by " + f.Until.UTC().Format(time.RFC3339) + " at the latest"
	}
	return "no one: it goes on by itself"
}

// groups prints the causes of everything that is stuck.
func (p *printer) groups(answer Answer) {
	if len(answer.Groups) == 0 {
		p.line("Nothing is stuck.")
		p.unread(answer.Unread)
		return
	}
	p.line("%d object(s) are stuck, for %d cause(s).", len(answer.Reports), len(answer.Groups))
	for i, g := range answer.Groups {
		p.line("")
		p.line("%s%d. %s%s  %s", p.style.bold, i+1, g.Reason, p.style.off, objectsText(g.Objects))
		p.finding(g.Finding)
	}
	p.unread(answer.Unread)
}

// mostListed bounds how many objects of a group are named.
const mostListed = 4

func objectsText(refs []core.Ref) string {
	var names []string
	for i, ref := range refs {
		if i == mostListed {
			names = append(names, fmt.Sprintf("and %d more", len(refs)-mostListed))
			break
		}
		names = append(names, ref.String())
	}
	return strings.Join(names, ", ")
}

// paragraph wraps a text behind a label; later lines are indented by the label's width.
func (p *printer) paragraph(label, prefix, text string) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(label))
	line, room := label, p.width-len(indent)
	column := 0
	for word := range strings.FieldsSeq(prefix + text) {
		size := utf8.RuneCountInString(word)
		if column > 0 && column+1+size > room {
			p.line("%s", line)
			line, column = indent, 0
		}
		if column > 0 {
			line, column = line+" ", column+1
		}
		line, column = line+word, column+size
	}
	p.line("%s", line)
}
