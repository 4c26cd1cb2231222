package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// serve runs a registry that keeps everything in memory, to try a release. Only this machine reaches
// it: it has neither TLS nor users.
func serve(ctx context.Context, address string, out io.Writer) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("-address=%q: want a loopback address with a port, such as 127.0.0.1:5000", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	const patience = 10 * time.Second
	server := &http.Server{
		Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: patience,
	}
	fmt.Fprintln(out, l.Addr())
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
