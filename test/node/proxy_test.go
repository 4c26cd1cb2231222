package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// proxy serves the identity and the node service of a driver on a socket of its own.
type proxy struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	identity csi.IdentityClient
	node     csi.NodeClient

	mu    sync.Mutex
	calls map[string]int // by method
	hook  func(ctx context.Context, method, volume string) error
	after func(ctx context.Context, method, volume string) error
	edit  func(*csi.NodeGetCapabilitiesResponse)
	seen  []any        // publish and stage requests
	fails []string     // what the driver refused, with its words
	most  atomic.Int64 // volumes of the node, in place of the driver's; 0 for the driver's
}

// newProxy serves at socket until the test ends.
func newProxy(t *testing.T, driver, socket string) *proxy {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+driver, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{identity: csi.NewIdentityClient(conn), node: csi.NewNodeClient(conn), calls: map[string]int{}}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(p.intercept))
	csi.RegisterIdentityServer(server, p)
	csi.RegisterNodeServer(server, p)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-served; _ = conn.Close() })
	return p
}

func (p *proxy) intercept(ctx context.Context, r any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := filepath.Base(info.FullMethod)
	volume := ""
	if of, ok := r.(interface{ GetVolumeId() string }); ok {
		volume = of.GetVolumeId()
	}
	p.mu.Lock()
	p.calls[method]++
	hook, done := p.hook, p.after
	if volume != "" {
		p.seen = append(p.seen, r)
	}
	p.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, method, volume); errors.Is(err, errAnswered) {
			return answers[method], nil
		} else if err != nil {
			return nil, err
		}
	}
	answer, err := handle(ctx, r)
	if err != nil && method != "NodeGetVolumeStats" {
		p.mu.Lock()
		p.fails = append(p.fails, method+": "+err.Error())
		p.mu.Unlock()
	}
	if done != nil {
		_ = done(ctx, method, volume)
	}
	return answer, err
}

// setAfter sets what runs when the driver has answered.
func (p *proxy) setAfter(hook func(ctx context.Context, method, volume string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = hook
}

// errAnswered has a hook answer with success in place of the driver.
var errAnswered = errors.New("answered by the hook")

var answers = map[string]any{
	"NodePublishVolume": &csi.NodePublishVolumeResponse{}, "NodeUnpublishVolume": &csi.NodeUnpublishVolumeResponse{},
}

func (p *proxy) setHook(hook func(ctx context.Context, method, volume string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// mounting returns how often the driver was called to stage, publish, unpublish and unstage, and the
// calls that failed, except NodeGetVolumeStats: its volume may be unpublished at the same time.
func (p *proxy) mounting() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := fmt.Sprintf("stage %d, publish %d, unpublish %d, unstage %d", p.calls["NodeStageVolume"], p.calls["NodePublishVolume"],
		p.calls["NodeUnpublishVolume"], p.calls["NodeUnstageVolume"])
	return strings.Join(append([]string{counts}, p.fails...), "; ")
}

func (p *proxy) count(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[method]
}

func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls, p.seen = map[string]int{}, nil
}

// requests returns the requests of one type.
func requests[T any](p *proxy) []T {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []T
	for _, r := range p.seen {
		if one, ok := r.(T); ok {
			all = append(all, one)
		}
	}
	return all
}

func (p *proxy) GetPluginInfo(ctx context.Context, r *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return p.identity.GetPluginInfo(ctx, r)
}

func (p *proxy) GetPluginCapabilities(ctx context.Context, r *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return p.identity.GetPluginCapabilities(ctx, r)
}

func (p *proxy) Probe(ctx context.Context, r *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return p.identity.Probe(ctx, r)
}

func (p *proxy) NodeGetInfo(ctx context.Context, r *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	answer, err := p.node.NodeGetInfo(ctx, r)
	if most := p.most.Load(); most > 0 && err == nil {
		answer.MaxVolumesPerNode = most
	}
	return answer, err
}

func (p *proxy) NodeGetCapabilities(ctx context.Context, r *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	answer, err := p.node.NodeGetCapabilities(ctx, r)
	if p.edit != nil && err == nil {
		p.edit(answer)
	}
	return answer, err
}

func (p *proxy) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return p.node.NodeStageVolume(ctx, r)
}

func (p *proxy) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return p.node.NodeUnstageVolume(ctx, r)
}

// NodePublishVolume leaves out what the agent adds for the driver of a test and the real one refuses.
func (p *proxy) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	kept := map[string]string{}
	for key, value := range r.VolumeContext {
		if !strings.HasPrefix(key, "csi.storage.k8s.io/") {
			kept[key] = value
		}
	}
	r.VolumeContext = kept
	return p.node.NodePublishVolume(ctx, r)
}

func (p *proxy) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return p.node.NodeUnpublishVolume(ctx, r)
}

func (p *proxy) NodeExpandVolume(ctx context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	return p.node.NodeExpandVolume(ctx, r)
}

func (p *proxy) NodeGetVolumeStats(ctx context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	return p.node.NodeGetVolumeStats(ctx, r)
}
