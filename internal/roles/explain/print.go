package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/printable"
)

// encode returns an answer as json or yaml. Characters that a terminal acts on are escaped there
// too.
func encode(answer any, format string) (string, error) {
	text, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		return "", err
	}
	if format == "json" {
		return printable.JSON(string(text)) + "\n", nil
	}
	text, err = yaml.JSONToYAML(text)
	return printable.Text(string(text)), err
}

// code is an escape sequence of this program, which [printer.line] writes as it is.
type code string

// style turns the parts of an answer into terminal text.
type style struct{ bold, bad, good, dim, off code }

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

// line writes one line. All text is written by it: what is no [code] comes from the cluster, and
// loses the characters that a terminal acts on.
func (p *printer) line(format string, args ...any) {
	shown := make([]any, len(args))
	for i, arg := range args {
		switch arg.(type) {
		case code, int:
			shown[i] = arg
		default:
			shown[i] = printable.Line(fmt.Sprint(arg))
		}
	}
	fmt.Fprintf(&p.Builder, format+"\n", shown...)
}

// report prints the four parts of the answer about one object.
func (p *printer) report(r rules.Report) {
	s := p.style
	switch r.State {
	case rules.Well:
		p.line("%s%s%s  %swell%s", s.bold, r.Object, s.off, s.good, s.off)
		p.paragraph("  ", "", sentence(r.Summary))
		if r.Next != "" {
			p.paragraph("  ", "Next: ", sentence(r.Next))
		}
		p.refused(r.Refused)
	case rules.Unknown:
		p.line("%s%s%s  cannot tell", s.bold, r.Object, s.off)
		p.paragraph("  ", "", sentence(r.Summary))
		if r.Next != "" {
			p.paragraph("  ", "", r.Next)
		}
	case rules.Stuck:
		p.line("%s%s%s  %sstuck%s", s.bold, r.Object, s.off, s.bad, s.off)
		p.paragraph("  ", "", sentence(r.Summary))
		for i, f := range r.Findings {
			p.line("")
			if len(r.Findings) > 1 {
				p.line("%s%d of %d%s", s.bold, i+1, len(r.Findings), s.off)
			}
			p.finding(f)
		}
	}
	p.users(r.Users)
	p.unread(r.Unread)
}

// refused prints the last wish that the API server refused.
func (p *printer) refused(f *rules.Finding) {
	if f == nil {
		return
	}
	p.line("")
	since := ""
	if f.Since != nil {
		since = ", since " + f.Since.UTC().Format(time.RFC3339)
	}
	p.line("%sA change was refused%s%s", p.style.bold, since, p.style.off)
	p.finding(*f)
}

// users prints what uses a class, a driver, a lease or a secret.
func (p *printer) users(users []rules.Use) {
	if len(users) == 0 {
		return
	}
	p.line("")
	for i, user := range users {
		label := "              "
		if i == 0 {
			label = "Used by       "
		}
		text := user.Object.String()
		if i == mostUsers {
			p.line("%sand %d more", label, len(users)-mostUsers)
			return
		}
		if user.Waits != "" {
			text += ": waits for " + user.Waits
		}
		p.paragraph(label, "", text)
	}
}

func (p *printer) unread(texts []string) {
	if len(texts) == 0 {
		return
	}
	p.line("")
	for _, text := range texts {
		p.wrap(p.style.dim, "Note: ", sentence(text))
	}
}

func (p *printer) finding(f rules.Finding) {
	p.chain(f)
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
		p.paragraph(label, "", sentence(step.Text))
		if step.Command != "" {
			p.line("                %s%s%s", p.style.bold, step.Command, p.style.off)
		}
		if step.Risk != "" {
			p.paragraph("                ", "Risk: ", sentence(step.Risk))
		}
	}
	p.paragraph("Who           ", "", sentence(whoText(f)))
	p.line("Reason        %s", f.Reason)
}

// chain prints the waits from the object to the cause, each on a line but the last, which is whole.
func (p *printer) chain(f rules.Finding) {
	if len(f.Chain) == 0 {
		p.paragraph("It waits for  ", "", sentence(f.WaitsFor))
		return
	}
	for i, link := range f.Chain {
		label := "It waits for  "
		if i > 0 {
			label = link.Object.String() + " waits for "
		}
		if i == len(f.Chain)-1 {
			p.paragraph("  ", label, sentence(f.WaitsFor))
			return
		}
		text := label + link.WaitsFor
		if i > 0 {
			text = "  " + text
		}
		p.line("%s", cut(text, p.width))
	}
}

// sentence ends a text with a full stop, unless it has an end of its own, or its quotation has.
func sentence(text string) string {
	inner := strings.TrimRight(text, "”\"")
	if inner == "" || strings.ContainsAny(inner[len(inner)-1:], ".?!") {
		return text
	}
	return text + "."
}

func evidenceText(e rules.Evidence) string {
	text := fmt.Sprintf("%s: %s is %s", e.Object, e.Field, e.Value)
	if strings.HasPrefix(e.Field, "event ") {
		text = fmt.Sprintf("%s, %s: %s", e.Object, e.Field, e.Value)
	}
	if e.Wanted != "" {
		text += "; expected " + e.Wanted
	}
	return text
}

func whoText(f rules.Finding) string {
	if f.Actor != rules.Itself {
		return "the " + string(f.Actor)
	}
	if f.Until != nil {
		return "no one: it goes on by itself, by " + f.Until.UTC().Format(time.RFC3339) + " at the latest"
	}
	return "no one: it goes on by itself"
}

// mostUsers is how many users of an object are named in a text.
const mostUsers = 8

// mostExplained is how many causes are explained behind the table, unless all are asked for.
const mostExplained = 5

// groups prints a table of the causes of everything that is stuck, then what to do about the first.
// What is not wrong stands below it.
func (p *printer) groups(answer Answer, all bool) {
	stuck := slices.DeleteFunc(slices.Clone(answer.Groups), func(g rules.Group) bool { return g.Normal })
	normal := slices.DeleteFunc(slices.Clone(answer.Groups), func(g rules.Group) bool { return !g.Normal })
	switch {
	case len(stuck) > 0:
		p.line(
			"%s stuck, for %s.", counted(objectsIn(stuck), "object is", "objects are"),
			counted(len(stuck), "cause", "causes"),
		)
		p.line("")
		p.table(stuck, answer.Time)
	case answer.Unknown:
		p.line("Cannot tell whether something is stuck: not all was read.")
	case len(answer.Unread) > 0:
		p.line("Nothing is stuck, as far as could be read.")
	default:
		p.line("Nothing is stuck.")
	}
	explained := stuck
	if !all {
		explained = stuck[:min(len(stuck), mostExplained)]
	}
	for i, g := range explained {
		p.line("")
		p.line("%s%d. %s%s  %s", p.style.bold, i+1, g.Reason, p.style.off, objectsText(g.Objects))
		p.finding(g.Finding)
	}
	if left := len(stuck) - len(explained); left > 0 {
		p.line("")
		p.line("%s not explained here: --all explains them too.", counted(left, "cause is", "causes are"))
	}
	if len(normal) > 0 {
		p.line("")
		p.line("%s as they should:", counted(objectsIn(normal), "object waits", "objects wait"))
		p.table(normal, answer.Time)
	}
	p.wishes(answer)
	p.unread(answer.Unread)
}

// wishes prints a table of what the API server refused about objects that are well.
func (p *printer) wishes(answer Answer) {
	if len(answer.Refused) == 0 {
		return
	}
	rows := make([]rules.Group, 0, len(answer.Refused))
	for _, f := range answer.Refused {
		rows = append(rows, rules.Group{Finding: f, Reason: f.Reason, Objects: []rules.Ref{f.Object}, Oldest: f.Since})
	}
	p.line("")
	p.line(
		"%s well, with a change that was refused; its name behind explain says what to do:",
		counted(len(rows), "object is", "objects are"),
	)
	p.table(rows, answer.Time)
}

func objectsIn(groups []rules.Group) (n int) {
	for _, g := range groups {
		n += len(g.Objects)
	}
	return n
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", more)
}

// table has a line for each cause: the oldest object, how many more, since when, the actor, the
// cause. What does not fit is cut at the end, where the cause is; names come first and stay whole.
func (p *printer) table(groups []rules.Group, now time.Time) {
	rows := [][]string{{"OBJECT", "SINCE", "WHO", "CAUSE"}}
	for _, g := range groups {
		object := g.Finding.Object.String()
		if more := len(g.Objects) - 1; more > 0 {
			object += fmt.Sprintf(" +%d", more)
		}
		since := "-"
		if g.Oldest != nil {
			since = duration.HumanDuration(now.Sub(*g.Oldest))
		}
		rows = append(rows, []string{
			object, since, string(g.Finding.Actor), string(g.Reason) + ": " + g.Finding.WaitsFor,
		})
	}
	var widths [3]int
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(printable.Line(row[i])))
		}
	}
	for _, row := range rows {
		var text strings.Builder
		for i, width := range widths {
			fmt.Fprintf(&text, "%-*s  ", width, printable.Line(row[i]))
		}
		p.line("%s", cut(text.String()+row[3], max(p.width, utf8.RuneCountInString(text.String())+1)))
	}
}

// mostListed bounds how many objects of a group are named.
const mostListed = 4

func objectsText(refs []rules.Ref) string {
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
func (p *printer) paragraph(label, prefix, text string) { p.wrap("", label, prefix+text) }

// wrap writes a paragraph in a colour, which may be none.
func (p *printer) wrap(colour code, label, text string) {
	off := p.style.off
	if colour == "" {
		off = ""
	}
	indent := strings.Repeat(" ", utf8.RuneCountInString(label))
	line, room := label, p.width-len(indent)
	column := 0
	for word := range strings.FieldsSeq(printable.Text(text)) {
		size := utf8.RuneCountInString(word)
		if column > 0 && column+1+size > room {
			p.line("%s%s%s", colour, line, off)
			line, column = indent, 0
		}
		if column > 0 {
			line, column = line+" ", column+1
		}
		line, column = line+word, column+size
	}
	p.line("%s%s%s", colour, line, off)
}
