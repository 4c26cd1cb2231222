package scripted

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
)

// SocketDir returns an empty folder for the time of a test. Sockets in it have a path that is short
// enough for the kernel; those in t.TempDir do not.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "purser") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Start serves a driver until the end of a test, and returns its socket, which is in a folder of
// its own.
func Start(t testing.TB, d Server, options ...grpc.ServerOption) (socket string) {
	t.Helper()
	socket = filepath.Join(SocketDir(t), "csi.sock")
	server, err := Serve(context.WithoutCancel(t.Context()), socket, d, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return socket
}
