package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/compat/scenario"
	"github.com/purser-csi/purser/test/scripted"
)

// Driver describes a scripted CSI driver.
type Driver struct {
	Name       string
	Controller []csi.ControllerServiceCapability_RPC_Type
	Node       []csi.NodeServiceCapability_RPC_Type
}

// answer is one entry of a script.
type answer struct {
	method   string // empty for any
	code     codes.Code
	message  string
	capacity int64 // 0 for what was asked for; -1 for an answer without a capacity
	node     bool
	left     int // calls that it answers; -1 for every further one until another answer is set
}

// script has the answers of all drivers, and their calls, by the handle of the volume.
type script struct {
	mu      sync.Mutex
	answers map[string][]answer
	calls   map[string][]string
	called  func(scenario string)
}

func newScript(called func(scenario string)) *script {
	return &script{answers: map[string][]answer{}, calls: map[string][]string{}, called: called}
}

var codeByName = func() map[string]codes.Code {
	all := map[string]codes.Code{}
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		all[c.String()] = c
	}
	return all
}()

// Answer implements play.Driver.
func (d *script) Answer(handle string, s scenario.Step) error {
	a := answer{left: 1, node: slices.Contains(s.Words, "node")}
	if len(s.Words) == 0 {
		return errors.New("say: answer VOLUME CODE ['MESSAGE']")
	}
	var known bool
	if a.code, known = codeByName[s.Words[0]]; !known {
		return fmt.Errorf("%q is no gRPC code: use a name such as OutOfRange", s.Words[0])
	}
	if len(s.Words) > 1 && s.Words[1] != "node" {
		a.message = s.Words[1]
	}
	a.method, _ = s.Option("method")
	if text, ok := s.Option("times"); ok {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("times=%s: %w", text, err)
		}
		a.left = n
	}
	if s.Has("always") {
		a.left = -1
	}
	if text, ok := s.Option("capacity"); ok {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("capacity=%s: %w", text, err)
		}
		if a.capacity = q.Value(); a.capacity == 0 {
			a.capacity = -1
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	queue := slices.DeleteFunc(d.answers[handle], func(old answer) bool { return old.left < 0 && old.method == a.method })
	d.answers[handle] = append(queue, a)
	return nil
}

// Calls implements play.Driver.
func (d *script) Calls(handle string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.calls[handle])
}

// next takes the next answer of the script.
func (d *script) next(handle, method string) answer {
	queue := d.answers[handle]
	i := slices.IndexFunc(queue, func(a answer) bool { return a.method == "" || a.method == method })
	if i < 0 {
		return answer{}
	}
	a := queue[i]
	if queue[i].left > 0 {
		if queue[i].left--; queue[i].left == 0 {
			d.answers[handle] = slices.Delete(queue, i, i+1)
		}
	}
	return a
}

// call answers one call about a volume.
func (d *script) call(handle, method string, request proto.Message) (any, error) {
	of, _, _ := strings.Cut(handle, ".")
	defer d.called(of)
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.next(handle, method)
	d.calls[handle] = append(d.calls[handle], fmt.Sprintf("%s %s -> %s", method, plain(request), a.code))
	if a.code != codes.OK {
		return nil, status.Error(a.code, a.message)
	}
	return respond(request, a)
}

// respond builds the response to a request.
func respond(request proto.Message, a answer) (any, error) {
	switch r := request.(type) {
	case *csi.ControllerExpandVolumeRequest:
		capacity := r.GetCapacityRange().GetRequiredBytes()
		switch {
		case a.capacity > 0:
			capacity = a.capacity
		case a.capacity < 0:
			capacity = 0
		}
		return &csi.ControllerExpandVolumeResponse{CapacityBytes: capacity, NodeExpansionRequired: a.node}, nil
	case *csi.ControllerModifyVolumeRequest:
		return &csi.ControllerModifyVolumeResponse{}, nil
	}
	return nil, status.Errorf(codes.Unimplemented, "%T", request)
}

// plain is a request as text, in an order that does not change, with the keys of secrets and
// without their values.
func plain(request proto.Message) string {
	text, err := protojson.Marshal(request)
	if err != nil {
		return err.Error()
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err.Error()
	}
	delete(fields, "volumeId") // the line stands beside the volume
	if secrets, ok := fields["secrets"].(map[string]any); ok {
		fields["secrets"] = slices.Sorted(maps.Keys(secrets))
	}
	sorted, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return string(sorted)
}

// lines adds the calls for a scenario to its outcome: in their order, and those that repeat the one
// before them once, with their number where the script ends.
func (d *script) lines(of string, out outcome.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for handle, calls := range d.calls {
		name, found := strings.CutPrefix(handle, of+".")
		if !found {
			continue
		}
		endless := slices.ContainsFunc(d.answers[handle], func(a answer) bool { return a.left < 0 })
		for number, start := 1, 0; start < len(calls); number++ {
			end := start + 1
			for end < len(calls) && calls[end] == calls[start] {
				end++
			}
			times := fmt.Sprintf("%d times", end-start)
			if endless {
				times = "again and again"
			}
			out[strings.ReplaceAll(fmt.Sprintf("pv/%s call.%d = %s, %s", name, number, calls[start], times), of+".", "")] = true
			start = end
		}
	}
}

// server serves one driver.
type server struct {
	scripted.Driver
	csi.UnimplementedNodeServer

	node   []csi.NodeServiceCapability_RPC_Type
	script *script
}

var _ csi.NodeServer = (*server)(nil) // [scripted.Serve] serves it as one

// serve serves a driver with the answers of the script on a socket in dir, until the returned
// function is called.
func serve(ctx context.Context, dir string, of Driver, from *script) (socket string, stop func(), err error) {
	d := &server{Driver: scripted.Driver{Name: of.Name, Controller: of.Controller}, node: of.Node, script: from}
	socket = filepath.Join(dir, d.Name+".sock")
	running, err := scripted.Serve(ctx, socket, d, grpc.UnaryInterceptor(d.intercept))
	if err != nil {
		return "", nil, fmt.Errorf("driver %s: %w", d.Name, err)
	}
	return socket, running.Stop, nil
}

// intercept answers calls about a volume from the script.
func (d *server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler,
) (any, error) {
	about, ok := request.(interface {
		proto.Message
		GetVolumeId() string
	})
	if !ok {
		return handle(ctx, request)
	}
	return d.script.call(about.GetVolumeId(), filepath.Base(info.FullMethod), about)
}

func (d *server) NodeGetCapabilities(context.Context,
	*csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range d.node {
		rpc := &csi.NodeServiceCapability_RPC{Type: c}
		response.Capabilities = append(response.Capabilities,
			&csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: rpc}})
	}
	return response, nil
}
