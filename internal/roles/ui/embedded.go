package ui

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/telemetry"
	pages "github.com/purser-csi/purser/internal/ui"
)

// Embedded are the pages of a cluster that the same process runs.
type Embedded struct {
	Address string // to open, with its token

	listener net.Listener
	server   *pages.Server
	handler  http.Handler
	source   *explain.Pages
	title    string
	spans    *telemetry.Spans
}

// Embed listens on a free port of the loopback address. spans are those of the roles in the process.
func Embed(ctx context.Context, config *rest.Config, title string, spans *telemetry.Spans) (*Embedded, error) {
	e := &Embedded{title: title, spans: spans, source: explain.NewPages(explain.Streams{})}
	e.source.Of(config)
	var err error
	if e.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("--ui: %w", err)
	}
	e.server = pages.NewServer(nil)
	e.server.Open = explain.OpenFiles
	if e.handler, e.Address, err = Private(e.server, e.listener); err != nil {
		return nil, err
	}
	return e, nil
}

// OpenBrowser opens the address, if the output is a terminal with a screen.
func (e *Embedded) OpenBrowser(ctx context.Context, out io.Writer) { openBrowser(ctx, out, e.Address) }

// Run watches the cluster and serves its pages until the context ends.
func (e *Embedded) Run(ctx context.Context) error {
	defer e.listener.Close()
	from, _, err := e.source.Client()
	if err != nil {
		return err
	}
	watched, err := watch(ctx, from, e.title, "", "")
	if err != nil {
		return err
	}
	e.server.Set(watched.state())
	go watched.keep(ctx, e.server)
	go e.follow(ctx, watched)
	return serveUntil(ctx, e.listener, e.handler, "", "")
}

// pauseOfSpans is between two reads of the spans of this process.
const pauseOfSpans = time.Second

// follow passes what the roles of this process did to the pages.
func (e *Embedded) follow(ctx context.Context, w *watched) {
	tick := time.NewTicker(pauseOfSpans)
	defer tick.Stop()
	next := uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		answer := e.spans.After(next)
		next = answer.Next
		for _, span := range answer.Spans {
			w.live.Call(life.Call(span))
		}
	}
}
