package driver

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/mount"
)

// allMethods are the methods of all services of CSI.
func allMethods() (methods []protoreflect.MethodDescriptor) {
	services := csi.File_csi_proto.Services()
	for i := range services.Len() {
		for j := range services.Get(i).Methods().Len() {
			methods = append(methods, services.Get(i).Methods().Get(j))
		}
	}
	return methods
}

func emptyOf(f testing.TB, d protoreflect.MessageDescriptor) proto.Message {
	f.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		f.Fatal(err)
	}
	return kind.New().Interface()
}

// fuzzRig is a driver in a folder of its own.
type fuzzRig struct {
	dir  string
	conn *grpc.ClientConn
}

func newFuzzRig(f *testing.F, newBackend func(state string) (backend.Backend, error)) *fuzzRig {
	f.Helper()
	dir := f.TempDir()
	state := filepath.Join(dir, "state")
	b, err := newBackend(state)
	if err != nil {
		f.Fatal(err)
	}
	d, err := New(Config{
		NodeID: "node-1", Endpoint: "unix:///unused", StateDir: state, Backend: b, Mounter: mount.SymlinkMounter{},
		Attach: Attach{Required: true, Nodes: []string{"*"}},
	})
	if err != nil {
		f.Fatal(err)
	}
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	served := serveUntil(ctx, d, listener)
	conn, err := grpc.NewClient("passthrough:///driver",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = conn.Close()
		cancel()
		<-served
	})
	for _, name := range []string{"targets", "outside"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			f.Fatal(err)
		}
	}
	<-d.Ready()
	return &fuzzRig{dir: dir, conn: conn}
}

// serveUntil serves until the context ends.
func serveUntil(ctx context.Context, d *Driver, listener net.Listener) <-chan error {
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, listener) }()
	return served
}

// call sends a request, and receives all answers of a streaming method.
func (r *fuzzRig) call(ctx context.Context, method protoreflect.MethodDescriptor, request, answer proto.Message) error {
	name := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	if !method.IsStreamingServer() {
		return r.conn.Invoke(ctx, name, request, answer)
	}
	stream, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, name)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for err == nil {
		err = stream.RecvMsg(answer)
	}
	if err.Error() == "EOF" {
		return nil
	}
	return err
}

// confine puts every path of a request below a folder: a caller may name any path of the machine.
func confine(message protoreflect.Message, dir string) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
		case field.Kind() == protoreflect.MessageKind && field.IsList():
			for i := range value.List().Len() {
				confine(value.List().Get(i).Message(), dir)
			}
		case field.Kind() == protoreflect.MessageKind:
			confine(value.Message(), dir)
		case strings.HasSuffix(string(field.Name()), "_path") && strings.HasPrefix(value.String(), "/"):
			message.Set(field, protoreflect.ValueOfString(filepath.Join(dir, filepath.Clean(value.String()))))
		}
		return true
	})
}

// outside lists what is in the folder of a rig beside the state and the targets.
func (r *fuzzRig) outside(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir(r.dir, func(path string, entry fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, r.dir)
		if name == "/state" || name == "/targets" {
			return fs.SkipDir
		}
		found = append(found, name)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// FuzzRequests: whatever a caller sends to any method, the driver does not panic, answers with a
// code of CSI, and touches nothing outside its pool and the paths that the request names.
func FuzzRequests(f *testing.F) {
	methods := allMethods()
	capability := mountCapability(writer)
	for i, method := range methods {
		f.Add(uint8(i), []byte{})
		for _, message := range []proto.Message{
			createRequest("vol"), createRequest("../outside"), createRequest("."), sized("big", 1<<62, volumeSource("../outside")),
			&csi.DeleteVolumeRequest{VolumeId: "../../outside"}, &csi.DeleteSnapshotRequest{SnapshotId: "../outside"},
			&csi.NodePublishVolumeRequest{VolumeId: "vol", TargetPath: "/a", StagingTargetPath: "/s", VolumeCapability: capability},
			&csi.NodeStageVolumeRequest{VolumeId: "vol", StagingTargetPath: "/s", VolumeCapability: capability},
			&csi.NodeUnpublishVolumeRequest{VolumeId: "vol", TargetPath: "/../outside"},
			&csi.ControllerPublishVolumeRequest{VolumeId: "vol", NodeId: "node-1", VolumeCapability: capability},
			&csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{"vol", "../outside"}},
			&csi.GetMetadataDeltaRequest{BaseSnapshotId: "a", TargetSnapshotId: "b", StartingOffset: -1},
		} {
			if message.ProtoReflect().Descriptor().FullName() != method.Input().FullName() {
				continue
			}
			raw, err := proto.Marshal(message)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), raw)
		}
	}
	rigs := []*fuzzRig{
		newFuzzRig(f, func(state string) (backend.Backend, error) { return directory.New(directory.Config{StateDir: state}) }),
		newFuzzRig(f, func(string) (backend.Backend, error) { return newShelf(), nil }),
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		method := methods[int(which)%len(methods)]
		for _, r := range rigs {
			request := emptyOf(t, method.Input())
			if proto.Unmarshal(raw, request) != nil {
				return // gRPC refuses it
			}
			confine(request.ProtoReflect(), filepath.Join(r.dir, "targets"))
			before := r.outside(t)
			err := r.call(t.Context(), method, request, emptyOf(t, method.Output()))
			if code := status.Code(err); code == codes.Unknown || strings.Contains(status.Convert(err).Message(), "panicked") {
				t.Errorf("%s: %v", method.Name(), err)
			}
			if after := r.outside(t); len(after) != len(before) {
				t.Errorf("%s: outside of the pool there is %q, was %q", method.Name(), after, before)
			}
		}
	})
}
