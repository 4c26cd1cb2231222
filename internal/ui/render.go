package ui

import (
	"io"
	"strings"
	"time"

	g "maragu.dev/gomponents"

	"github.com/purser-csi/purser/internal/printable"
)

// page is what the pages have in common, with the main part of one.
type page struct {
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
	Body   mainPart
}

// mainPart is the content of a page, without its header and footer. The functions g.Text and g.Attr
// escape what they write: names and messages come from users of the cluster. A link to a page has an
// encoded address, of addressOf or linkTo. g.Raw is for what the program has written itself.
type mainPart interface{ main(p page) g.Node }

// writeDocument writes the whole page.
func (p page) writeDocument(to io.Writer) error { return writeNode(to, document(p)) }

// writeMain writes the main part alone.
func (p page) writeMain(to io.Writer) error { return writeNode(to, p.Body.main(p)) }

func writeNode(to io.Writer, node g.Node) error {
	var text strings.Builder
	if err := node.Render(&text); err != nil {
		return err
	}
	// Characters without a glyph are escaped, as on a terminal: they could reverse a line or hide a
	// part of it.
	_, err := io.WriteString(to, printable.Text(text.String()))
	return err
}

// mostNamed is how many objects of a cause are named.
const mostNamed = 100

// firstOf returns the first n elements.
func firstOf[T any](n int, all []T) []T { return all[:min(n, len(all))] }
