package live

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// fakeVolumes is a driver that stores no volumes.
type fakeVolumes struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer

	plugin     []csi.PluginCapability_Service_Type
	controller []csi.ControllerServiceCapability_RPC_Type
	secrets    chan map[string]string // of each CreateVolume
}

const fakeName = "fake.csi"

func (p *fakeVolumes) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (p *fakeVolumes) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: fakeName}, nil
}

func (p *fakeVolumes) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	answer := &csi.GetPluginCapabilitiesResponse{}
	for _, c := range append(p.plugin, csi.PluginCapability_Service_CONTROLLER_SERVICE) {
		answer.Capabilities = append(answer.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: c}}})
	}
	return answer, nil
}

func (p *fakeVolumes) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range append(p.controller, csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME) {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}})
	}
	return answer, nil
}

func (p *fakeVolumes) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if p.secrets != nil {
		p.secrets <- r.GetSecrets()
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}}, nil
}

func (p *fakeVolumes) serve(t *testing.T) (socket string) {
	t.Helper()
	dir := scripted.SocketDir(t)
	socket = filepath.Join(dir, "csi.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, p)
	csi.RegisterControllerServer(server, p)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return socket
}

// provisioner runs a provisioner with the shipped permissions, until the test or the caller ends
// it.
func (p liveCluster) provisioner(socket string) (end func(), log *rolestest.Log) {
	p.Helper()
	role, _ := liveProvisioner(p.T, p.as("csi-provisioner"), socket, "--leader-election-namespace="+process.SystemNamespace)
	log = &rolestest.Log{}
	role.Log = log.Logger()
	return rolestest.InBackground(p.T, role.Run), log
}

func (p liveCluster) asks(name, class string, annotations map[string]string) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim := p.claim(name, new(class))
	claim.Annotations = map[string]string{names.AnnStorageProvisioner: fakeName}
	maps.Copy(claim.Annotations, annotations)
	if err := p.user.Update(p.Context(), claim); err != nil {
		p.Fatal(err)
	}
	return claim
}

func (p liveCluster) awaitVolume(claim *corev1.PersistentVolumeClaim) {
	p.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)}}
	await(p, "the volume of "+claim.Name, pv, func(*corev1.PersistentVolume) bool { return true })
}

// W-1 to W-5, ST-10: each kind has one watch. VolumeAttachments, Nodes and CSINodes are watched
// only for a driver that needs them. C-84: no claim is written.
func TestWatches(t *testing.T) {
	p := newLiveCluster(t)
	first := storagev1.VolumeBindingWaitForFirstConsumer
	p.create(
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fake"}, Provisioner: fakeName, VolumeBindingMode: new(first)},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}},
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: fakeName, NodeID: "n1", TopologyKeys: []string{"zone"}}},
		}},
	)
	always := map[string]int{"persistentvolumeclaims": 1, "persistentvolumes": 1, "storageclasses": 1}
	for _, tc := range []struct {
		row    string
		driver *fakeVolumes
		more   map[string]int
	}{
		{"W-1 W-2 W-3 a simple driver", &fakeVolumes{}, nil},
		{"W-5 ST-10 one that attaches", &fakeVolumes{controller: []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME}}, map[string]int{"volumeattachments": 1}},
		{"W-4 one with places", &fakeVolumes{plugin: []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS}}, map[string]int{"nodes": 1, "csinodes": 1}},
	} {
		t.Run(tc.row, func(t *testing.T) {
			p := liveCluster{t, p.server, p.user, p.setup}
			begin := p.mark()
			end, _ := p.provisioner(tc.driver.serve(t))
			p.awaitVolume(p.asks(strings.ToLower(tc.row[:3]), "fake", map[string]string{names.AnnSelectedNode: "n1"}))
			end()
			want := maps.Clone(always)
			maps.Copy(want, tc.more)
			// The API server logs a watch when it has noticed its end, which no mark waits for.
			rolestest.Eventually(t, "the watches are in the audit log", func() error {
				got := map[string]int{}
				for request, answers := range p.asked(begin, p.mark(), "csi-provisioner") {
					if request.Verb == "watch" {
						got[request.Resource] += answers.All()
					}
					if request.Resource == "persistentvolumeclaims" && request.IsWrite() {
						t.Errorf("C-84: %v", request)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					return fmt.Errorf("watches:\n%s", diff)
				}
				return nil
			})
		})
	}
}

// RB-8, H-44: the shipped role reads no secret. A claim whose class names one gets an event with
// the missing rule and its manifest. With the optional manifest the driver gets the values.
func TestSecretsNeedTheirOwnPermission(t *testing.T) {
	p := newLiveCluster(t)
	driver := &fakeVolumes{secrets: make(chan map[string]string, 10)}
	p.create(
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "locked"}, Provisioner: fakeName, Parameters: map[string]string{
			names.ParameterProvisionerSecretName: "key", names.ParameterProvisionerSecretNamespace: process.SystemNamespace,
		}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: "key"}, Data: map[string][]byte{"password": []byte("hunter2")}},
	)
	_, log := p.provisioner(driver.serve(t))
	claim := p.asks("locked", "locked", nil)
	rolestest.Eventually(t, "the event", func() error {
		var events corev1.EventList
		if err := p.user.List(t.Context(), &events); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.UID == claim.UID && e.Reason == "ProvisioningFailed" && strings.Contains(e.Message, process.SystemNamespace+"/key") && strings.Contains(e.Message, "[get]") {
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(events.Items))
	})
	if lines := log.Lines(); slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "missing permission") }) {
		t.Errorf("RB-8: a permission that few need is missed: %q", lines)
	}
	manifest, err := os.Open(filepath.Join("..", "..", "deploy", "optional", "csi-provisioner-secrets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer manifest.Close()
	if err := p.setup.Apply(t.Context(), manifest.Name(), manifest); err != nil {
		t.Fatal(err)
	}
	p.awaitVolume(claim)
	if got := <-driver.secrets; got["password"] != "hunter2" {
		t.Errorf("RB-8: the driver got %v", got)
	}
}
