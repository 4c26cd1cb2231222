package ui

import (
	"fmt"
	"net/http"
	"time"
)

// pauseOfEvents is after how long without a newer state a comment is sent, by which both ends see
// that the connection is alive.
const pauseOfEvents = 15 * time.Second

// events sends a server-sent event for each newer state, until the browser or the server ends. The
// event has no content: the page asks for what it shows.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	stream := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	tick := time.NewTicker(pauseOfEvents)
	defer tick.Stop()
	count, newer := s.next()
	send := func(text string) bool {
		_ = stream.SetWriteDeadline(time.Now().Add(pauseOfEvents)) // without support for it, none is set
		_, err := fmt.Fprint(w, text)
		return err == nil && stream.Flush() == nil
	}
	if !send(eventOf(count)) {
		return
	}
	for {
		text := ": alive\n\n"
		select {
		case <-r.Context().Done():
			return
		case <-newer:
			count, newer = s.next()
			text = eventOf(count)
		case <-tick.C:
		}
		if !send(text) {
			return
		}
	}
}

func eventOf(count uint64) string {
	return fmt.Sprintf("event: state\nid: %d\ndata: %d\n\n", count, count)
}
