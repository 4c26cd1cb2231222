package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

// localDriver keeps volumes on one node. It notes the name of each volume that it was asked for, and
// the handle of each that it was asked to delete.
type localDriver struct {
	csi.UnimplementedControllerServer

	node   string
	plugin scriptedDriver // the other services

	noted   sync.Mutex
	created []string
	deleted []string
}

func newLocalDriver(node string) *localDriver {
	d := &localDriver{node: node, plugin: scriptedDriver{
		name: "local.csi", topology: true, node: node,
		capabilities: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		},
	}}
	d.plugin.self = d
	return d
}

func (d *localDriver) ControllerGetCapabilities(
	ctx context.Context,
	r *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	return d.plugin.ControllerGetCapabilities(ctx, r)
}

func (d *localDriver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.noted.Lock()
	defer d.noted.Unlock()
	d.created = append(d.created, r.GetName())
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(), AccessibleTopology: []*csi.Topology{placeOf(d.node)},
	}}, nil
}

func (d *localDriver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.noted.Lock()
	defer d.noted.Unlock()
	d.deleted = append(d.deleted, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *localDriver) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	return &csi.GetCapacityResponse{AvailableCapacity: 1 << 50}, nil
}

// calls counts the nodes and calls by volume.
func calls(of func(*localDriver) []string, drivers ...*localDriver) map[string][]string {
	nodes := map[string][]string{}
	for _, d := range drivers {
		d.noted.Lock()
		for _, volume := range of(d) {
			nodes[volume] = append(nodes[volume], d.node)
		}
		d.noted.Unlock()
	}
	return nodes
}

func created(d *localDriver) []string { return d.created }
func deleted(d *localDriver) []string { return d.deleted }

var nodeDelays = []string{"--node-deployment", "--node-deployment-base-delay=2s", "--node-deployment-max-delay=4s"}

// ourInstance runs an instance of ours for a node.
func (p liveCluster) ourInstance(d *localDriver) {
	p.Helper()
	p.Setenv("NODE_NAME", d.node) // for the check of the flags; the node itself is given below
	role, _ := liveProvisioner(p.T, p.as("csi-provisioner"), d.plugin.serve(p.T), append(nodeDelays, "--leader-election-namespace="+process.SystemNamespace)...)
	role.NodeDeployment.NodeName = d.node
	started := make(chan struct{})
	role.Started = func() { close(started) }
	rolestest.InBackground(p.T, role.Run)
	select { // an instance that starts late finds that the other one has taken all claims
	case <-started:
	case <-time.After(time.Minute):
		p.Fatal("the instance does not start")
	}
}

// upstreamProvisioner is the path of upstream's program. Without it the test is skipped.
func upstreamProvisioner(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs("../../bin/upstream-csi-provisioner")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Skip("run 'tools/build.sh bin upstream-csi-provisioner': ", err)
	}
	return program
}

// upstreamInstance runs upstream's program for a node.
func (p liveCluster) upstreamInstance(d *localDriver) {
	p.Helper()
	program := upstreamProvisioner(p.T)
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, append(nodeDelays, "--csi-address="+d.plugin.serve(p.T), "--kubeconfig="+p.server.Kubeconfig())...)
	command.Env = append(os.Environ(), "NODE_NAME="+d.node)
	log := &rolestest.Log{}
	if err := command.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		cancel()
		_ = command.Wait() // it was killed
		if p.Failed() {
			p.Log(log.Lines())
		}
	})
	rolestest.Eventually(p.T, "upstream's program asks for the node", func() error {
		if d.plugin.called("NodeGetInfo") == 0 { // its last call before it starts
			return errors.New("not yet")
		}
		return nil
	})
}

// TestInstancePerNode: N-5 to N-9, D-13. Two instances, each with the driver of its node, and claims
// with immediate binding: each claim gets one owner and one CreateVolume, and its volume is deleted
// by the owner alone. The second time one of them is upstream's.
func TestInstancePerNode(t *testing.T) {
	for _, tc := range []struct {
		row      string
		second   func(liveCluster, *localDriver)
		upstream bool
	}{
		{"N-7 both ours", liveCluster.ourInstance, false},
		{"N-7 one is upstream's", liveCluster.upstreamInstance, true},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if tc.upstream {
				upstreamProvisioner(t) // before anything is started
			}
			p := newLiveCluster(t)
			p.create(&storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "local.csi", VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
			})
			first, second := newLocalDriver("n1"), newLocalDriver("n2")
			p.ourInstance(first)
			tc.second(p, second)
			const many = 16
			var claims []*corev1.PersistentVolumeClaim
			for i := range many {
				claim := p.claim(fmt.Sprint("c", i), new("local"))
				claim.Annotations = map[string]string{names.AnnStorageProvisioner: "local.csi"}
				if err := p.user.Update(t.Context(), claim); err != nil {
					t.Fatal(err)
				}
				claims = append(claims, claim)
			}
			owners := map[string]int{}
			for _, claim := range claims {
				owners[p.ownerOf(claim)]++
			}
			if len(owners) != 2 {
				t.Errorf("all claims went to one node: %v", owners)
			}
			made := calls(created, first, second)
			for volume, nodes := range made {
				if len(nodes) != 1 {
					t.Errorf("CreateVolume of %s on %v", volume, nodes)
				}
			}
			if len(made) != many {
				t.Errorf("%d volumes for %d claims", len(made), many)
			}
			p.releaseAll(claims)
			for volume, nodes := range calls(deleted, first, second) {
				if tc.upstream { // it repeats DeleteVolume while the object is still there
					nodes = slices.Compact(nodes)
				}
				if fmt.Sprint(nodes) != fmt.Sprint(made[volume]) {
					t.Errorf("%s was made on %v and deleted on %v", volume, made[volume], nodes)
				}
			}
			t.Logf("%d claims, owners %v", many, owners)
		})
	}
}

// ownerOf waits for the volume of a claim, and returns the node that has both.
func (p liveCluster) ownerOf(claim *corev1.PersistentVolumeClaim) string {
	p.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)}}
	await(p, "the volume of "+claim.Name, pv, func(*corev1.PersistentVolume) bool { return true })
	if err := p.user.Get(p.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		p.Fatal(err)
	}
	node := claim.Annotations[names.AnnSelectedNode]
	if got := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]; got != node {
		p.Errorf("claim %s is for %s, its volume is on %s", claim.Name, node, got)
	}
	return node
}

// releaseAll deletes the claims, and does for their volumes what the PV controller would.
func (p liveCluster) releaseAll(claims []*corev1.PersistentVolumeClaim) {
	p.Helper()
	for _, claim := range claims {
		pv := &corev1.PersistentVolume{}
		if err := p.user.Get(p.Context(), client.ObjectKey{Name: "pvc-" + string(claim.UID)}, pv); err != nil {
			p.Fatal(err)
		}
		p.release(claim, pv)
	}
	for _, claim := range claims {
		rolestest.Eventually(p.T, "the end of the volume of "+claim.Name, func() error {
			err := p.user.Get(p.Context(), client.ObjectKey{Name: "pvc-" + string(claim.UID)}, &corev1.PersistentVolume{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it exists: %w", err)
		})
	}
}
