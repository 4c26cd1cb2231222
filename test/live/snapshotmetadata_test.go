package live

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/snapshotmetadata"
	"github.com/purser-csi/purser/test/backupclient"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// metadataCluster is a cluster with the service of the built-in driver, whose volume has two
// snapshots.
type metadataCluster struct {
	liveCluster

	state string // of the driver
	log   *rolestest.Log
}

// newMetadataCluster skips where there are no loop images.
func newMetadataCluster(t *testing.T) metadataCluster {
	t.Helper()
	dir := scripted.SocketDir(t)
	state := filepath.Join(dir, "state")
	if err := loopfile.Usable(state); err != nil {
		t.Skip("no loop images here: " + err.Error())
	}
	p := metadataCluster{newLiveCluster(t), state, &rolestest.Log{}}
	p.snapshotKinds()
	if err := p.server.Install(t.Context(), filepath.Join("testdata", "snapshotmetadataservices.yaml")); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.Open(filepath.Join("..", "..", "deploy", "optional", "csi-snapshot-metadata.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer manifest.Close()
	if err := p.setup.Apply(t.Context(), manifest.Name(), manifest); err != nil {
		t.Fatal(err)
	}
	d := driver.New()
	d.Log, d.Notice, d.Version = (&rolestest.Log{}).Logger(), func(string) {}, "test"
	d.Endpoint, d.StateDir, d.NodeID, d.Backend = "unix://"+filepath.Join(dir, "csi.sock"), state, "node", "loopfile"
	rolestest.InBackground(t, d.Run)
	p.serve(d.Endpoint, p.backUp(d.Endpoint))
	return p
}

// backUp takes two snapshots of a volume, which are ready in the API too. It returns the name of
// the driver.
func (p metadataCluster) backUp(endpoint string) string {
	p.Helper()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Close()
	controller := csi.NewControllerClient(conn)
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(
		p.Context(), &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true),
	)
	if err != nil {
		p.Fatal(err)
	}
	made, err := controller.CreateVolume(p.Context(), &csi.CreateVolumeRequest{
		Name: "vol", CapacityRange: &csi.CapacityRange{RequiredBytes: 16 << 20},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	if err != nil {
		p.Fatal(err)
	}
	for i, name := range []string{"monday", "tuesday"} {
		p.write(made.GetVolume().GetVolumeId(), int64(1+i)<<20, name)
		p.write(made.GetVolume().GetVolumeId(), int64(8+i)<<20, name)
		taken, err := controller.CreateSnapshot(
			p.Context(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: made.GetVolume().GetVolumeId()},
		)
		if err != nil {
			p.Fatal(err)
		}
		p.taken(name, info.GetName(), taken.GetSnapshot().GetSnapshotId(), true)
	}
	p.taken("foreign", "other.example.com", "handle", true)
	p.taken("early", info.GetName(), "handle", false)
	return info.GetName()
}

func (p metadataCluster) write(volume string, at int64, text string) {
	p.Helper()
	file, err := os.OpenFile(filepath.Join(p.state, "volumes", volume, "image"), os.O_WRONLY, 0)
	if err != nil {
		p.Fatal(err)
	}
	_, err = file.WriteAt([]byte(text), at)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		p.Fatal(err)
	}
}

// taken creates a VolumeSnapshot with its content, as the programs of snapshots leave them.
func (p metadataCluster) taken(name, driver, handle string, isReady bool) {
	p.Helper()
	snapshot := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1Name(name)}
	snapshot.Namespace = "default"
	snapshot.Spec.Source.VolumeSnapshotContentName = new("content-" + name)
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1Name("content-" + name),
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain,
			Source:            snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &handle},
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "default", Name: name},
		},
	}
	p.create(snapshot, content)
	content.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: &handle, ReadyToUse: new(true)}
	snapshot.Status = &snapshotv1.VolumeSnapshotStatus{
		BoundVolumeSnapshotContentName: new("content-" + name), ReadyToUse: &isReady,
	}
	if err := errors.Join(
		p.user.Status().Update(p.Context(), content), p.user.Status().Update(p.Context(), snapshot),
	); err != nil {
		p.Fatal(err)
	}
}

// serve starts the service with the permissions that it ships with, and creates the object that
// says where it is.
func (p metadataCluster) serve(endpoint, driver string) {
	p.Helper()
	certs := p.TempDir()
	chain := rolestest.WriteCertificate(p.T, certs)
	r := snapshotmetadata.New()
	where := make(chan net.Addr, 1)
	r.Version, r.API, r.Log = "test", p.as("csi-snapshot-metadata"), p.log.Logger()
	r.Serving = func(a net.Addr) { where <- a }
	p.begin(r, &r.Started, []string{
		"--csi-address=" + endpoint, "--port=0", "--http-endpoint=127.0.0.1:0",
		"--tls-cert=" + filepath.Join(certs, "tls.crt"),
		"--tls-key=" + filepath.Join(certs, "tls.key"),
	})
	_, port, err := net.SplitHostPort((<-where).String())
	if err != nil {
		p.Fatal(err)
	}
	p.create(&kube.SnapshotMetadataService{ObjectMeta: metav1Name(driver), Spec: kube.SnapshotMetadataServiceSpec{
		Address: net.JoinHostPort("127.0.0.1", port), Audience: "cbt.test", CACert: chain,
	}})
}

// client returns a backup program with an account, which may get the snapshots of the namespace
// default or not.
func (p metadataCluster) client(account string, mayGet bool) backupclient.Client {
	p.Helper()
	p.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: account}})
	if mayGet {
		p.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: account},
			RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "purser-snapshot-metadata-client",
			},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}},
		})
	}
	return backupclient.Client{API: p.setup.Client, Namespace: "default", Account: account}
}

// ask connects as a client, and streams the blocks of a snapshot, or those that changed since base.
func (p metadataCluster) ask(
	ctx context.Context, c backupclient.Client, base, snapshot string,
) ([]backupclient.Block, error) {
	conn, token, err := c.Connect(ctx, "default", "monday") // of whose driver the service is
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	r := backupclient.Request{Token: token, Namespace: "default", Snapshot: snapshot, Max: 1}
	if base != "" {
		if r.Base, err = c.Handle(ctx, "default", base); err != nil {
			return nil, err
		}
	}
	blocks, err := backupclient.Collect(ctx, conn, r)
	for _, line := range p.log.Lines() {
		if strings.Contains(line, token) {
			p.Errorf("CB-18: the log has the token: %s", line)
		}
	}
	return blocks, err
}

// CB-12, CB-14, CB-15, CB-17, CB-18, CB-22, CB-28: a backup program finds the service of a real API
// server, and restores two snapshots from their blocks; who may not is refused.
func TestSnapshotMetadata(t *testing.T) {
	t.Parallel()
	p := newMetadataCluster(t)
	agent := p.client("agent", true)
	restored := filepath.Join(t.TempDir(), "restored")
	for _, step := range []struct {
		base, snapshot string
		most           int64 // bytes
	}{{"", "monday", 64 << 10}, {"monday", "tuesday", 64 << 10}} {
		var blocks []backupclient.Block
		rolestest.Eventually(t, step.snapshot, func() (err error) {
			blocks, err = p.ask(t.Context(), agent, step.base, step.snapshot)
			return err
		})
		handle, err := agent.Handle(t.Context(), "default", step.snapshot)
		if err != nil {
			t.Fatal(err)
		}
		image := filepath.Join(p.state, "snapshots", handle, "image")
		if err := backupclient.Restore(restored, image, blocks); err != nil {
			t.Fatal(err)
		}
		want, err := backupclient.Checksum(image)
		got, alsoErr := backupclient.Checksum(restored)
		total := int64(0)
		for _, b := range blocks {
			total += b.Size
		}
		if err := errors.Join(err, alsoErr); err != nil || got != want || total == 0 || total > step.most {
			t.Errorf("%s: %v give %s, want %s (%v)", step.snapshot, blocks, got, want, err)
		}
	}

	stranger, elsewhere := p.client("stranger", false), agent
	elsewhere.Audience = "another.test"
	for _, tc := range []struct {
		row, base, snapshot string
		client              backupclient.Client
		code                codes.Code
		text                string
	}{
		{"CB-14 another audience", "", "monday", elsewhere, codes.Unauthenticated, "unauthenticated user"},
		{"CB-15 no permission", "", "monday", stranger, codes.PermissionDenied, "user does not have permissions"},
		{"CB-15 another driver", "", "foreign", agent, codes.InvalidArgument, "does not belong to the CSI driver"},
		{"CB-15 not ready", "", "early", agent, codes.Unavailable, "not yet ready"},
		{"CB-27 no such snapshot", "", "sunday", agent, codes.NotFound, "default/sunday"},
		{"CB-16 no such base for the driver", "foreign", "tuesday", agent, codes.NotFound, ""},
	} {
		_, err := p.ask(t.Context(), tc.client, tc.base, tc.snapshot)
		if status.Code(err) != tc.code || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want %s with %q", tc.row, err, tc.code, tc.text)
		}
	}
}
