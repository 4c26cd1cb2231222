package registrar

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	kubelet "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/purser-csi/purser/internal/registrar/rules"
)

const (
	socketMode = 0o600 // upstream listens with the umask 0077 (NR-11)
	// dialTimeout bounds the question whether a process serves a socket. A connection to a UNIX socket
	// does not wait for the other side to accept it.
	dialTimeout = time.Second
)

// publication is a socket that is served for the kubelet.
type publication struct {
	*Service

	path   string
	file   fs.FileInfo // of the socket at its making
	server *grpc.Server
	ended  chan struct{}
}

// publish serves the kubelet at a new socket. It listens under a name that the kubelet ignores and
// renames the socket then, so that the kubelet never sees one that no process serves (NR-H3).
func publish(ctx context.Context, path string, service *Service) (*publication, error) {
	hidden := filepath.Join(filepath.Dir(path), "."+rand.Text()[:8])
	if len(hidden) > rules.MaxSocketPath {
		return nil, fmt.Errorf("the folder %s has too long a path for a socket", filepath.Dir(path))
	}
	listener, err := (&net.ListenConfig{Control: restrictMode}).Listen(ctx, "unix", hidden)
	if err != nil {
		return nil, fmt.Errorf("listen in %s: %w", filepath.Dir(path), err)
	}
	if socket, ok := listener.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(false) // by then its name is that of another process's socket, perhaps
	}
	p := &publication{Service: service, path: path, ended: make(chan struct{})}
	log := logr.FromContextOrDiscard(ctx)
	p.server = grpc.NewServer(grpc.UnaryInterceptor(
		func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			return handle(logr.NewContext(ctx, log), r)
		},
	))
	kubelet.RegisterRegistrationServer(p.server, service)
	go func() {
		defer close(p.ended)
		_ = p.server.Serve(listener) // ends with the server
	}()
	service.Publish()
	if p.file, err = os.Lstat(hidden); err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		_ = os.Remove(hidden)
		p.stop()
		return nil, fmt.Errorf("publish %s: %w", path, err)
	}
	log.Info("Registration Server started", "socket", path)
	return p, nil
}

// restrictMode runs between socket(2) and bind(2): Linux gives the file the mode of the socket.
// Changing the file's mode afterwards would leave a moment in which others can connect.
func restrictMode(_, _ string, raw syscall.RawConn) error {
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = unix.Fchmod(int(fd), socketMode) }); err != nil {
		return err
	}
	return failure
}

// stop ends the server; the socket stays.
func (p *publication) stop() {
	p.server.Stop() // nothing here takes time
	<-p.ended
}

// isOurs reports whether a file is the socket of the publication. Another file may have the number of
// its inode, but not its time.
func (p *publication) isOurs(file fs.FileInfo) bool {
	return os.SameFile(file, p.file) && file.ModTime().Equal(p.file.ModTime())
}

// inspect returns what is at a path. p is the publication of this process; nil for none.
func inspect(path string, p *publication) rules.Socket {
	file, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return rules.SocketUnknown
		}
		return rules.SocketAbsent
	case err != nil:
		return rules.SocketUnknown
	case file.Mode().Type() != fs.ModeSocket:
		return rules.SocketNotOne
	case p != nil && p.path == path && p.isOurs(file):
		return rules.SocketOurs
	}
	connection, err := net.DialTimeout("unix", path, dialTimeout)
	if err != nil {
		return rules.SocketStale
	}
	_ = connection.Close()
	return rules.SocketServed
}

// healthCheck marks the calls of [nameAt], which are not the kubelet's.
const healthCheck = "purser-health-check"

func isHealthCheck(ctx context.Context) bool {
	values, _ := metadata.FromIncomingContext(ctx)
	return len(values.Get(healthCheck)) > 0
}

// nameAt calls GetInfo at a socket by a connection of its own, as the kubelet does (NR-14).
func nameAt(ctx context.Context, path string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, healthCheck, "1"), timeout)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	info, err := kubelet.NewRegistrationClient(connection).GetInfo(ctx, &kubelet.InfoRequest{})
	if err != nil {
		return "", err
	}
	return info.GetName(), nil
}
