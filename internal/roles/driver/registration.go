package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	kubelet "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/purser-csi/purser/internal/driver"
)

// Config has the driver to register, and the folder of the kubelet.
type Config struct {
	// Dir is the folder that the kubelet watches, such as
	// /var/lib/kubelet/plugins_registry.
	Dir string
	// Name is the name of the driver.
	Name string
	// Socket is the path of the CSI socket as the kubelet sees it.
	Socket string
}

// csiVersion is the version that the kubelet accepts for every driver of CSI 1.
const csiVersion = "1.0.0"

// maxSocketPath is the kernel's limit (sockaddr_un.sun_path, less the final
// zero).
const maxSocketPath = 107

// Server answers the kubelet. It serves once.
type Server struct {
	kubelet.UnimplementedRegistrationServer
	config  Config
	serving chan struct{}

	mu     sync.Mutex
	status error
}

var errNotAsked = errors.New("the kubelet has not asked yet; does it watch this folder, and see the socket in it?")

// NewRegistration checks the configuration. Nothing happens before Run.
func NewRegistration(config Config) (*Server, error) {
	switch {
	case !filepath.IsAbs(config.Dir):
		return nil, fmt.Errorf("registration folder %q: give an absolute path", config.Dir)
	case !filepath.IsAbs(config.Socket):
		return nil, fmt.Errorf("socket %q for the kubelet: give an absolute path", config.Socket)
	case config.Name == "":
		return nil, errors.New("the name of the driver is missing")
	}
	s := &Server{config: config, serving: make(chan struct{}), status: errNotAsked}
	if len(s.Path()) > maxSocketPath {
		return nil, fmt.Errorf(
			"registration socket %s: the path has %d bytes, but the kernel allows %d for a socket; choose a shorter "+
				"folder",
			s.Path(),
			len(s.Path()),
			maxSocketPath,
		)
	}
	return s, nil
}

// Path is where the kubelet finds the driver.
func (s *Server) Path() string { return filepath.Join(s.config.Dir, s.config.Name+"-reg.sock") }

// Serving is closed when the kubelet can connect.
func (s *Server) Serving() <-chan struct{} { return s.serving }

// Run serves until ctx is done, and removes the socket, which unregisters the driver. It logs to
// the logger in ctx.
func (s *Server) Run(ctx context.Context) error {
	listener, err := driver.Listen(ctx, s.Path())
	if err != nil {
		return fmt.Errorf("register with the kubelet: %w", err)
	}
	log := logr.FromContextOrDiscard(ctx)
	server := grpc.NewServer(
		grpc.UnaryInterceptor(
			func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				return handle(logr.NewContext(ctx, log), r)
			},
		),
	)
	kubelet.RegisterRegistrationServer(server, s)
	log.Info("Waiting for the kubelet", "socket", s.Path())
	return s.serve(ctx, server, listener)
}

func (s *Server) serve(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	close(s.serving)
	select {
	case err := <-failed:
		return fmt.Errorf("serve the registration: %w", err)
	case <-ctx.Done():
		server.Stop() // nothing here takes time
		if err := <-failed; !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	}
}

// Check says why the driver is not registered; nil when it is.
func (s *Server) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// GetInfo implements the kubelet's service.
func (s *Server) GetInfo(context.Context, *kubelet.InfoRequest) (*kubelet.PluginInfo, error) {
	return &kubelet.PluginInfo{
		Type: kubelet.CSIPlugin, Name: s.config.Name, Endpoint: s.config.Socket,
		SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus implements the kubelet's service. A refusal is logged and kept for
// Check, and is not fatal: the kubelet retries.
func (s *Server) NotifyRegistrationStatus(
	ctx context.Context,
	status *kubelet.RegistrationStatus,
) (*kubelet.RegistrationStatusResponse, error) {
	log := logr.FromContextOrDiscard(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if status.GetPluginRegistered() {
		s.status = nil
		log.Info("The kubelet has registered the driver")
	} else {
		s.status = fmt.Errorf("the kubelet refused the driver: %s", status.GetError())
		log.Error(s.status, "Not registered")
	}
	return &kubelet.RegistrationStatusResponse{}, nil
}
