package reports

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/purser-csi/purser/test/scripted"
)

const (
	driverName = "reports.csi.example.com"
	// ownerParameter is the parameter of a class that names the script.
	ownerParameter = "script"
	// codeHang is the code of an answer that never comes.
	codeHang = codes.Code(100)
)

// fakeDriver is a CSI driver in memory. The answers of scripts come first; see [fakeDriver.intercept].
type fakeDriver struct {
	scripted.Driver
	csi.UnimplementedNodeServer
	csi.UnimplementedGroupControllerServer

	mu        sync.Mutex
	volumes   map[string]*fakeVolume
	snapshots map[string]*fakeSnapshot
	groups    map[string]*csi.VolumeGroupSnapshot
	answers   []*answer
	calls     []call
}

// answer is what a script has set for calls of a method.
type answer struct {
	owner, method string
	code          codes.Code
	message       string
	left          int // calls that it still answers; -1 for all
	after         bool
	match         matcher
}

// call is one call that the driver got.
type call struct{ owner, method, subject, text string }

// matcher restricts an answer or a count to some calls. A nil pattern matches all.
type matcher struct{ subject, text *regexp.Regexp }

func (m matcher) matches(c call) bool {
	return (m.subject == nil || m.subject.MatchString(c.subject)) && (m.text == nil || m.text.MatchString(c.text))
}

func newFakeDriver() *fakeDriver {
	return &fakeDriver{
		Driver: scripted.Driver{
			Name:   driverName,
			Plugin: []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE},
			Controller: []csi.ControllerServiceCapability_RPC_Type{
				csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
				csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
				csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
				csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
				csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
				csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
				csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
				csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
			},
		},
		volumes: map[string]*fakeVolume{}, snapshots: map[string]*fakeSnapshot{}, groups: map[string]*csi.VolumeGroupSnapshot{},
	}
}

// serve answers at a socket in dir until the test ends.
func (d *fakeDriver) serve(t *testing.T, dir string) (socket string) {
	t.Helper()
	socket = filepath.Join(dir, "own.sock")
	// Not the test's context: `up` ends after it, and unpublishes volumes then.
	server, err := scripted.Serve(context.WithoutCancel(t.Context()), socket, d, grpc.UnaryInterceptor(d.intercept))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return socket
}

// intercept notes each call about an object of a script, and gives the script's answer.
func (d *fakeDriver) intercept(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	a := d.take(callOf(filepath.Base(info.FullMethod), request.(proto.Message)))
	switch {
	case a == nil:
		return handle(ctx, request)
	case a.code == codeHang:
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case a.code != codes.OK:
		if a.after {
			if _, err := handle(ctx, request); err != nil {
				return nil, err
			}
		}
		return nil, status.Error(a.code, a.message)
	}
	response, err := handle(ctx, request)
	if err != nil || a.message == "" {
		return response, err
	}
	return merged(response.(proto.Message), a.message)
}

// merged returns a response with the fields in text replaced.
func merged(response proto.Message, text string) (proto.Message, error) {
	fields := response.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal([]byte(text), fields); err != nil {
		return nil, status.Errorf(codes.Internal, "the script's answer %s: %v", text, err)
	}
	response = proto.Clone(response) // it may be the driver's own object
	proto.Merge(response, fields)
	return response, nil
}

// take notes a call, and takes the answer that a script has for it; nil for none.
func (d *fakeDriver) take(c call) *answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
	i := slices.IndexFunc(d.answers, func(a *answer) bool {
		return a.owner == c.owner && a.method == c.method && a.left != 0 && a.match.matches(c)
	})
	if i < 0 {
		return nil
	}
	if d.answers[i].left > 0 {
		d.answers[i].left--
	}
	return d.answers[i]
}

// callOf describes a request. Its owner is in the parameters, or at the begin of the handle.
func callOf(method string, request proto.Message) call {
	c := call{method: method, subject: subjectOf(request)}
	if r, ok := request.(interface{ GetParameters() map[string]string }); ok {
		c.owner = r.GetParameters()[ownerParameter]
	}
	if before, _, found := strings.Cut(c.subject, "."); found && c.owner == "" {
		c.owner = before
	}
	text, err := protojson.Marshal(request)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		panic(fmt.Sprintf("request %T: %v", request, err)) // gRPC has just read it
	}
	delete(fields, "secrets")
	sorted, _ := json.Marshal(fields) // it was read from JSON
	c.text = string(sorted)
	return c
}

// subjectOf returns the handle that a request is about. Of a request that creates it is the name,
// after the volumes that a snapshot is of.
func subjectOf(request proto.Message) string {
	var parts []string
	if r, ok := request.(interface{ GetGroupSnapshotId() string }); ok {
		parts = append(parts, r.GetGroupSnapshotId())
	}
	if r, ok := request.(interface{ GetSourceVolumeIds() []string }); ok {
		parts = append(parts, r.GetSourceVolumeIds()...)
	}
	if r, ok := request.(interface{ GetSnapshotId() string }); ok {
		parts = append(parts, r.GetSnapshotId())
	}
	if r, ok := request.(interface{ GetSourceVolumeId() string }); ok {
		parts = append(parts, r.GetSourceVolumeId())
	}
	if r, ok := request.(interface{ GetVolumeId() string }); ok {
		parts = append(parts, r.GetVolumeId())
	}
	if r, ok := request.(interface{ GetName() string }); ok {
		parts = append(parts, r.GetName())
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// set adds an answer. It comes before older ones.
func (d *fakeDriver) set(a *answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = slices.Insert(d.answers, 0, a)
}

// clear forgets the answers of a script; all of them without a method.
func (d *fakeDriver) clear(owner, method string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = slices.DeleteFunc(d.answers, func(a *answer) bool {
		return a.owner == owner && (method == "" || a.method == method)
	})
}

// called returns the calls of a method for a script, as text.
func (d *fakeDriver) called(owner, method string, match matcher) (texts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		if c.owner == owner && c.method == method && match.matches(c) {
			texts = append(texts, c.text)
		}
	}
	return texts
}
