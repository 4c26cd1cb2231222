package registrar

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	kubelet "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/registrar/rules"
)

// csiVersion is the version that the kubelet accepts for every driver of CSI 1 (NR-12).
const csiVersion = "1.0.0"

// Service answers the kubelet about one driver.
type Service struct {
	kubelet.UnimplementedRegistrationServer

	name     string
	endpoint string // the driver's socket as the kubelet sees it
	now      func() time.Time
	notified func(before, after rules.Kubelet)

	mu    sync.Mutex
	state rules.Kubelet
}

// NewService returns the service of a driver. notified is called with what the kubelet has done
// before and after each of its answers; it may be nil.
func NewService(name, endpoint string, now func() time.Time, notified func(before, after rules.Kubelet)) *Service {
	if notified == nil {
		notified = func(rules.Kubelet, rules.Kubelet) {}
	}
	return &Service{name: name, endpoint: endpoint, now: now, notified: notified}
}

// Publish notes that the kubelet can see the socket from now on.
func (s *Service) Publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Published = s.now()
}

// State returns what the kubelet has done so far.
func (s *Service) State() rules.Kubelet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// GetInfo implements the kubelet's service. A health check is not the kubelet, and says so by
// [healthCheck].
func (s *Service) GetInfo(ctx context.Context, _ *kubelet.InfoRequest) (*kubelet.PluginInfo, error) {
	if !isHealthCheck(ctx) {
		logr.FromContextOrDiscard(ctx).V(4).Info("Received GetInfo call")
		s.mu.Lock()
		s.state = s.state.WasAsked(s.now())
		s.mu.Unlock()
	}
	return &kubelet.PluginInfo{
		Type: kubelet.CSIPlugin, Name: s.name, Endpoint: s.endpoint, SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus implements the kubelet's service. A refusal is no reason to end: the
// kubelet retries (NR-13, NR-H4).
func (s *Service) NotifyRegistrationStatus(
	ctx context.Context, status *kubelet.RegistrationStatus,
) (*kubelet.RegistrationStatusResponse, error) {
	s.mu.Lock()
	before := s.state
	s.state = before.WasNotified(status.GetPluginRegistered(), printable.Line(status.GetError()))
	after := s.state
	s.mu.Unlock()
	log := logr.FromContextOrDiscard(ctx).WithValues("driver", s.name)
	log.Info("Received NotifyRegistrationStatus call", "registered", after.Registered)
	if after.Registered {
		log.Info("the kubelet has registered the driver")
	} else {
		log.Error(nil, "Registration process failed with error, waiting for the kubelet to try again",
			"error", after.Refusal, "refusals", after.Refusals)
	}
	s.notified(before, after)
	return &kubelet.RegistrationStatusResponse{}, nil
}
