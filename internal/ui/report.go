package ui

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// ReportOptions choose what a report has.
type ReportOptions struct {
	// Lives is how many volumes have their life in the report, at most: those that are stuck, then
	// the slowest, then the newest.
	Lives int
	// Objects are objects whose pages it has besides.
	Objects []explain.Ref
	// Single leaves out all but the page of the first of Objects.
	Single bool
}

// Report writes the pages of a state as one HTML file. It loads nothing, works without a network,
// and shows its first page without its script.
func Report(to io.Writer, s *State, o ReportOptions) error {
	pages, first, err := reportPages(s, o)
	if err != nil {
		return err
	}
	data, err := pack(pages)
	if err != nil {
		return err
	}
	var body strings.Builder
	if err := writeNode(&body, documentBody(first, g.Raw(pages[pageBoard]))); err != nil { // the program has written it
		return fmt.Errorf("report: %w", err)
	}
	return reportDocument(first.Title, inFile(body.String()), data).Render(to)
}

// reportDocument is the file. body is HTML; data are the pages by address, as base64 of compressed
// JSON. The policy allows the script and the style of the program alone.
func reportDocument(title, body, data string) g.Node {
	script, style := string(static("app.js")), string(static("app.css"))
	policy := fmt.Sprintf("default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; base-uri 'none'; "+
		"form-action 'none'", hashOf(script), hashOf(style))
	return g.Group{g.Raw(doctype), h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(g.Attr("http-equiv", "Content-Security-Policy"), h.Content(policy)),
			viewport(), colorScheme(),
			h.TitleEl(g.Text(title+" – Purser")),
			h.StyleEl(g.Raw(style)),
		),
		h.Body(g.Raw(body), h.Div(h.ID("pages"), g.Attr("hidden"), g.Text(data)), h.Script(g.Raw(script))),
	)}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// pack compresses pages.
func pack(pages map[string]string) (string, error) {
	text, err := json.Marshal(pages)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := writer.Write(text); err != nil {
		return "", err
	}
	if err := writer.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// reported are the pages of a report.
type reported struct {
	state   *State
	options ReportOptions
	pages   map[string]string // main parts by address
}

// add makes a page.
func (r *reported) add(address string, make func(*State, url.Values) (page, error)) (page, error) {
	_, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return page{}, err
	}
	p, err := make(r.state, values)
	if err != nil {
		return p, err
	}
	p.Report, p.Single, p.Live = true, r.options.Single, false
	var text strings.Builder
	if err := p.writeMain(&text); err != nil {
		return p, err
	}
	r.pages[address] = inFile(text.String())
	return p, nil
}

// reportPages returns the main parts of all pages by their addresses, and the first page.
func reportPages(s *State, o ReportOptions) (pages map[string]string, first page, err error) {
	r := &reported{s, o, map[string]string{}}
	if o.Single {
		first, err = r.add(addressOf(o.Objects[0]), lifePage)
		r.pages[pageBoard] = r.pages[addressOf(o.Objects[0])]
	} else {
		first, err = r.all()
	}
	if err != nil {
		return nil, first, err
	}
	for reason := range reasonsIn(r.pages) {
		if _, err := r.add("reason?name="+url.QueryEscape(reason), reasonPage); err != nil {
			return nil, first, err
		}
	}
	return linked(r.pages), first, nil
}

// pageBoard is the address of the first page.
const pageBoard = "board"

// all makes the pages of everything, and returns the board.
func (r *reported) all() (board page, err error) {
	if board, err = r.add(pageBoard, boardPage); err != nil {
		return board, err
	}
	if _, err = r.add("map", mapPage); err != nil {
		return board, err
	}
	if _, err = r.add("numbers", numbersPage); err != nil {
		return board, err
	}
	for _, ref := range r.options.Objects {
		if _, err = r.add(addressOf(ref), lifePage); err != nil {
			return board, err
		}
	}
	for _, ref := range r.state.notable(r.options.Lives) {
		// An object that the cause of another one is about may not be there; it has no page then.
		_, _ = r.add(addressOf(ref), lifePage)
	}
	return board, nil
}

// notable returns the objects whose pages a report has: those that are stuck, and then claims, the
// slowest first and then the newest.
func (s *State) notable(most int) (all []explain.Ref) {
	seen := map[explain.Ref]bool{}
	add := func(ref explain.Ref) {
		if !seen[ref] && hasPage(ref.Kind) && ref.Name != "" && len(all) < most {
			seen[ref] = true
			all = append(all, ref)
		}
	}
	b := s.board()
	for _, c := range slices.Concat(b.Causes, b.Waits) {
		for _, ref := range c.Objects {
			add(ref)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.numbers == nil {
		s.numbers = numbersOf(s)
	}
	for _, slow := range s.numbers.Slowest {
		add(slow.Claim)
	}
	// The claims that are gone are in the changes alone.
	claims := s.past().Claims(s.Namespace)
	slices.SortStableFunc(claims, func(a, b explain.Ref) int {
		return cmp.Compare(s.past().Newest(b), s.past().Newest(a))
	})
	for _, ref := range claims {
		add(ref)
	}
	return all
}

var (
	linkInFile = regexp.MustCompile(` href="(board|map|numbers|life\?|reason\?)`)
	lifeInFile = regexp.MustCompile(`<a([^>]*) href="#!((?:life|reason)\?[^"]*)"([^>]*)>([^<]*)</a>`)
	reasonLink = regexp.MustCompile(` href="#!reason\?name=(\w+)"`)
)

// inFile makes the links to other pages addresses within the file.
func inFile(text string) string { return linkInFile.ReplaceAllString(text, ` href="#!$1`) }

// reasonsIn returns the reasons that pages link to.
func reasonsIn(pages map[string]string) map[string]bool {
	all := map[string]bool{}
	for _, text := range pages {
		for _, match := range reasonLink.FindAllStringSubmatch(text, -1) {
			all[match[1]] = true
		}
	}
	return all
}

// linked returns the pages with texts in place of links to pages that the file does not have.
func linked(pages map[string]string) map[string]string {
	for address, text := range pages {
		pages[address] = lifeInFile.ReplaceAllStringFunc(text, func(link string) string {
			parts := lifeInFile.FindStringSubmatch(link)
			if _, has := pages[strings.ReplaceAll(parts[2], "&amp;", "&")]; has {
				return link
			}
			return parts[4]
		})
	}
	return pages
}
