package ui

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/internal/roles/explain"
	pages "github.com/purser-csi/purser/internal/ui"
)

// New returns the commands ui and report.
func New(streams explain.Streams) []*cobra.Command {
	return []*cobra.Command{newUI(streams), newReport(streams)}
}

type uiOptions struct {
	*explain.Pages

	listen    string
	noOpen    bool
	endpoints explain.Endpoints
	serving   serving
	out       io.Writer
}

func newUI(streams explain.Streams) *cobra.Command {
	o := &uiOptions{Pages: explain.NewPages(streams), out: streams.Out}
	c := &cobra.Command{
		Use:   "ui",
		Short: "Show what is stuck, and the life of each volume, in a browser",
		Long: `Serves pages on this machine, prints their address and opens it in a browser:
what is stuck by cause and by who has to act, the life of each volume on an axis
of time, nodes and pools, and numbers. The pages follow the cluster. They only
read, with the permissions of the kubeconfig, and load nothing from elsewhere.
It ends with Ctrl-C.

The address has a token, so that no other user of the machine can read the
pages.`,
		Example: `  purser ui
  purser ui --from record.jsonl.gz
  purser ui --role-endpoint http://127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return explain.CannotTell(o.run(c.Context())) },
	}
	o.AddFlags(c.Flags())
	o.flags(c.Flags())
	explain.SetExitCodes(c, "served until it was interrupted")
	return c
}

func (o *uiOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to serve the pages at; port 0 is any free port")
	f.BoolVar(&o.noOpen, "no-open", false, "print the address, and open no browser")
	o.endpoints.AddFlags(f, "whose calls to the driver and metrics are shown")
	o.serving.flags(f)
}

func (o *uiOptions) run(ctx context.Context) error {
	if err := errors.Join(o.Validate(), o.endpoints.Validate(), o.serving.validate(o.listen)); err != nil {
		return err
	}
	saveMemory()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server, err := o.server(ctx)
	if err != nil {
		return err
	}
	return o.serve(ctx, server)
}

// server returns the server of what the flags choose. A cluster is watched until the context ends.
func (o *uiOptions) server(ctx context.Context) (*pages.Server, error) {
	if o.IsFile() {
		state, err := o.State(ctx)
		if err != nil {
			return nil, err
		}
		server := pages.NewServer(state)
		server.Open = o.serving.opener()
		return server, nil
	}
	from, namespace, err := o.Client()
	if err != nil {
		return nil, err
	}
	watched, err := watch(ctx, from, o.Title(), namespace, o.InNamespace())
	if err != nil {
		return nil, err
	}
	if err := o.follow(ctx, watched); err != nil {
		return nil, err
	}
	first := watched.state()
	first.Prepare()
	server := pages.NewServer(first)
	server.Open = o.serving.opener()
	go watched.keep(ctx, server)
	return server, nil
}

// follow passes what the roles do, and their metrics, to the pages until the context ends.
func (o *uiOptions) follow(ctx context.Context, to *watched) error {
	if len(o.endpoints.URLs) == 0 {
		return nil
	}
	to.metrics = &scraper{note: to.live.Note}
	for _, endpoint := range o.endpoints.URLs {
		through, err := o.endpoints.Client(endpoint)
		if err != nil {
			return err
		}
		to.metrics.of = append(to.metrics.of, scraped{endpoint, through})
		go record.NewRole(endpoint, through).Follow(ctx, to.live.Writer())
	}
	go to.metrics.follow(ctx)
	return nil
}

// serve serves the pages until the context ends.
func (o *uiOptions) serve(ctx context.Context, server *pages.Server) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen=%s: %w", o.listen, err)
	}
	defer listener.Close()
	handler, address, err := o.guarded(server, listener)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.out, "%s\n", address)
	if !o.noOpen {
		openBrowser(ctx, o.out, address)
	}
	return serveUntil(ctx, listener, handler, o.serving.certificate, o.serving.key)
}

// guarded returns the handler of the pages with its access, and the address to open.
func (o *uiOptions) guarded(server *pages.Server, listener net.Listener) (http.Handler, string, error) {
	if o.serving.authenticate {
		handler, err := o.serving.reviewed(o.Pages, server.Handler())
		return handler, o.serving.address(listener), err
	}
	return Private(server, listener)
}

// Private returns the handler of pages for one user of this machine, and the address that has its
// token.
func Private(server *pages.Server, listener net.Listener) (http.Handler, string, error) {
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, "", err
	}
	access := pages.Access{Hosts: pages.LoopbackHosts(port), Token: rand.Text(), Cookie: "purser-ui-" + port}
	address := "http://" + listener.Addr().String() + "/?token=" + url.QueryEscape(access.Token)
	return pages.Guarded(server.Handler(), access), address, nil
}

// endTime bounds the end of the server. Pages are short, and streams of events end with the context.
const endTime = 2 * time.Second

// serveUntil serves until the context ends, with TLS if there is a certificate.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler, certificate, key string) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() {
		if certificate != "" {
			ended <- server.ServeTLS(listener, certificate, key)
			return
		}
		ended <- server.Serve(listener)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	_ = server.Shutdown(bound) // what takes longer ends with the process
	return nil
}
