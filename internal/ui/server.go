package ui

import (
	"embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

//go:embed static
var staticFiles embed.FS

// Server serves the pages of a state, and those of files that were opened.
type Server struct {
	// Open reads the files that a user opens, by their names; nil if none may be opened.
	Open func(files map[string][]byte) (*State, error)

	state  atomic.Pointer[State]
	mu     sync.Mutex
	count  uint64        // of the states that were set
	newer  chan struct{} // is closed when a newer state is set
	opened []openedFile
}

// NewServer returns a server of a state. Without one, pages wait for the first call of Set.
func NewServer(s *State) *Server {
	server := &Server{newer: make(chan struct{})}
	if s != nil {
		server.state.Store(s)
	}
	return server
}

// Set replaces the state by a newer one, and lets the pages that are open ask for it.
func (s *Server) Set(newer *State) {
	s.state.Store(newer)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	close(s.newer)
	s.newer = make(chan struct{})
}

// next returns the number of the present state, and a channel that is closed by the next one.
func (s *Server) next() (count uint64, newer <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.newer
}

// Handler returns the handler of all pages. It does not check who asks: see [Guarded].
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	s.pages(mux, "/", s.present)
	s.pages(mux, "/f/{file}/", func(r *http.Request) *State { return s.file(r.PathValue("file")) })
	mux.HandleFunc("GET /events", s.events)
	if s.Open != nil {
		mux.HandleFunc("GET /open", s.openPage)
		mux.HandleFunc("POST /open", s.open)
	}
	return mux
}

// present returns the present state. The first one may be awaited.
func (s *Server) present(r *http.Request) *State {
	for {
		_, newer := s.next()
		if state := s.state.Load(); state != nil {
			return state
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-newer:
		}
	}
}

// pages registers the pages of a state below a path.
func (s *Server) pages(mux *http.ServeMux, base string, of func(*http.Request) *State) {
	for name, make := range map[string]func(*State, url.Values) (page, error){
		"{$}": boardPage, "board": boardPage, "life": lifePage, "map": mapPage, "numbers": numbersPage,
		"reason": reasonPage, "at": atPage,
	} {
		mux.HandleFunc("GET "+base+name, func(w http.ResponseWriter, r *http.Request) {
			state := of(r)
			if state == nil {
				s.fail(w, r, http.StatusNotFound, errors.New("this file is not open any more; open it once more"))
				return
			}
			p, err := make(state, r.URL.Query())
			if err != nil {
				s.fail(w, r, http.StatusNotFound, err)
				return
			}
			p.Live = p.Live && base == "/"
			s.write(w, r, http.StatusOK, p)
		})
	}
	for name, kind := range map[string]string{
		"app.js": "text/javascript; charset=utf-8", "events.js": "text/javascript; charset=utf-8",
		"app.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		mux.HandleFunc("GET "+base+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write(static(name)) // a browser that has gone needs no answer
		})
	}
}

// static returns a file of the program.
func static(name string) []byte {
	content, err := staticFiles.ReadFile("static/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return content
}

// headerPart is set by the script of a page that wants the main part alone.
const headerPart = "X-Purser-Part"

// write writes a page, or its main part if that is asked for.
func (s *Server) write(w http.ResponseWriter, r *http.Request, code int, p page) {
	p.CanAdd = s.Open != nil
	p.Query = r.URL.Query().Get("q")
	var text strings.Builder
	write := p.writeDocument
	if _, isPart := p.Body.(*atBody); isPart || r.Header.Get(headerPart) != "" {
		write = p.writeMain
	}
	if err := write(&text); err != nil {
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", headerPart)
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text.String())) // a browser that has gone needs no answer
}

// fail writes a page about an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, code int, err error) {
	s.write(w, r, code, page{Title: http.StatusText(code), Body: errorBody(err.Error()), Time: time.Now()})
}

// pageOf returns a page of a state without its body.
func pageOf(s *State, nav, title string) page {
	return page{Nav: nav, Title: title, Source: s.Title, Time: s.Cluster.Now, Live: s.Live}
}

// boardBody is what the board shows.
type boardBody struct {
	Board    *board
	Filtered bool
	Choices  []choice
	Cause    string // the only one that is shown; empty for all
}

func boardPage(s *State, query url.Values) (page, error) {
	p := pageOf(s, "board", "What is stuck")
	whole, f := s.board(), filterOf(query)
	shown := whole.apply(f)
	p.Unread, p.Notes = whole.Unread, s.Notes
	p.Body = boardBody{shown, f.isSet(), whole.choices(f), f.Cause}
	if n := shown.Stuck(); n > 0 {
		p.Title = fmt.Sprintf("%d stuck", n)
	}
	return p, nil
}

// reasonBody is what the page of a reason shows.
type reasonBody struct {
	Name       verdict.Reason
	Paragraphs []string
	Event      string
}

func reasonPage(s *State, query url.Values) (page, error) {
	reason := verdict.Reason(query.Get("name"))
	if !verdict.IsDocumented(reason) {
		return page{}, fmt.Errorf("there is no reason %q", reason)
	}
	p := pageOf(s, "reason", string(reason))
	p.Live = false
	texts := []string{verdict.Meaning(reason), verdict.Advice(reason)}
	p.Body = reasonBody{reason, texts, verdict.Describe(reason).Event}
	return p, nil
}

// explained returns the answer about an object. For one that is not there, Next says which may be
// meant.
func explained(c *explain.Cluster, ref explain.Ref) explain.Report {
	report := c.Explain(ref)
	if report.State == explain.Unknown && len(report.Unread) == 0 {
		var texts []string
		for _, similar := range c.Similar(ref) {
			texts = append(texts, similar.String())
		}
		if len(texts) > 0 {
			report.Next = "did you mean " + strings.Join(texts, " or ") + "?"
		}
	}
	return report
}
