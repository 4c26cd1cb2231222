package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	kubelet "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/registrar"
	"github.com/purser-csi/purser/internal/registrar/rules"
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

// Server answers the kubelet. It serves once.
type Server struct {
	config  Config
	service *registrar.Service
	serving chan struct{}
}

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
	s := &Server{
		config: config, service: registrar.NewService(config.Name, config.Socket, time.Now, nil),
		serving: make(chan struct{}),
	}
	if problem := rules.NameProblem(config.Dir, config.Name); problem != "" {
		return nil, errors.New(problem)
	}
	return s, nil
}

// Path is where the kubelet finds the driver.
func (s *Server) Path() string { return rules.Path(s.config.Dir, s.config.Name) }

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
	kubelet.RegisterRegistrationServer(server, s.service)
	log.Info("Waiting for the kubelet", "socket", s.Path())
	return s.serve(ctx, server, listener)
}

func (s *Server) serve(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	s.service.Publish()
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
	if problem := s.service.State().Problem(time.Now()); problem != "" {
		return errors.New(problem)
	}
	return nil
}
