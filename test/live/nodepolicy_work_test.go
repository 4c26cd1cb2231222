package live

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/test/rolestest"
)

// nodeStorage is a driver of one node that can do all that the chart's sidecars ask for.
type nodeStorage struct {
	modifier

	deleted chan string
}

func (d *nodeStorage) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
		AccessibleTopology: []*csi.Topology{{Segments: map[string]string{chartNodeKey: d.node}}},
	}}, nil
}

func (d *nodeStorage) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.deleted <- r.GetVolumeId()
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *nodeStorage) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	return &csi.GetCapacityResponse{AvailableCapacity: 1 << 40}, nil
}

func (d *nodeStorage) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	return taken(r)
}

func newNodeStorage(node string) *nodeStorage {
	d := &nodeStorage{deleted: make(chan string, 10)}
	d.answer = map[string]codes.Code{}
	d.scriptedDriver = scriptedDriver{
		self: d, name: chartDriver, node: node, key: chartNodeKey, topology: true,
		expand: func(r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
			return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
		},
		capabilities: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
			csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		},
	}
	return d
}

// The sidecars of two nodes do all their work with the chart's command lines, role and policy: a volume is
// provisioned, expanded, modified, snapshotted and deleted, and no request is refused.
func TestNodeTokenAtWork(t *testing.T) {
	p, pod := onNodes(t)
	// The chart's bindings have the names of those of deploy/rbac, and other accounts.
	p.snapshotControllerAs("purser-snapshot-controller", "--enable-distributed-snapshotting=true")
	drivers := map[string]*nodeStorage{}
	from := p.mark()
	for _, node := range []string{"node-a", "node-b"} {
		drivers[node] = newNodeStorage(node)
		p.sidecarsOf(node, pod, drivers[node])
	}
	for node, d := range drivers {
		claim := p.localClaim("on-"+node, chartDriver, node)
		pv := &corev1.PersistentVolume{ObjectMeta: metav1Name("pvc-" + string(claim.UID))}
		await(p, "the volume", pv, func(*corev1.PersistentVolume) bool { return true })
		p.bind(claim, pv)
		p.ask(claim, "2Gi")
		await(p, "it has 2Gi", claim, hasSize("2Gi"))
		p.name(claim, "trims")
		await(p, "it has its class", claim, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Status.CurrentVolumeAttributesClassName != nil && *c.Status.CurrentVolumeAttributesClassName == "trims"
		})
		vs := &snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-" + node},
			Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim.Name}},
		}
		p.create(vs)
		await(p, "the snapshot is ready", vs, isUsable)
		p.release(claim, pv)
		if id := <-d.deleted; id != pv.Name {
			t.Errorf("%s: %s was deleted, want %s", node, id, pv.Name)
		}
	}
	rolestest.Eventually(t, "both nodes publish their capacity", func() error {
		var all storagev1.CSIStorageCapacityList
		if err := p.user.List(t.Context(), &all, client.InNamespace(process.SystemNamespace)); err != nil || len(all.Items) != 2 {
			return fmt.Errorf("%d capacities: %w", len(all.Items), err)
		}
		return nil
	})
	for request, answers := range p.asked(from, p.mark(), chartAccount) {
		if n := answers[401] + answers[403] + answers[422]; n > 0 {
			t.Errorf("%d times refused: %+v", n, request)
		}
	}
}

// sidecarsOf runs the sidecars of the chart's pod on a node, with the token of that pod.
func (p liveCluster) sidecarsOf(node string, pod corev1.PodSpec, d *nodeStorage) {
	p.Helper()
	p.Setenv("NODE_NAME", node)
	p.Setenv("NAMESPACE", process.SystemNamespace)
	p.Setenv("POD_NAMESPACE", process.SystemNamespace) // in a pod a file beside the token says it
	p.Setenv("POD_NAME", "driver-"+node)
	api, socket := p.asPodOn(node), d.serve(p.T)
	for _, container := range pod.Containers {
		var args []string
		for _, arg := range container.Args[1:] {
			switch {
			case strings.HasPrefix(arg, "--csi-address="):
				arg = "--csi-address=" + socket
			case strings.HasPrefix(arg, "--http-endpoint="), strings.HasPrefix(arg, "--v="), strings.HasPrefix(arg, "--logging-format="):
				continue
			}
			args = append(args, arg)
		}
		switch container.Args[0] {
		case "csi-provisioner":
			r := provisioner.New()
			r.NodeDeployment.NodeName = node // the environment is that of the last node
			r.Version, r.API, r.Log = "test", api, (&rolestest.Log{}).Logger()
			p.begin(r, &r.Started, args)
		case "csi-resizer":
			r := resizer.New()
			r.Version, r.API, r.Log = "test", api, (&rolestest.Log{}).Logger()
			p.begin(r, &r.Started, args)
		case "csi-snapshotter":
			r := snapshotter.New()
			r.Version, r.API, r.Log = "test", api, (&rolestest.Log{}).Logger()
			p.begin(r, &r.Started, args)
		}
	}
}

// bind writes what a binder writes when a claim has got its volume.
func (p liveCluster) bind(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
	p.Helper()
	before := claim.DeepCopy()
	claim.Spec.VolumeName = pv.Name
	if err := p.user.Patch(p.Context(), claim, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
	before = claim.DeepCopy()
	claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = corev1.ClaimBound, pv.Spec.Capacity, pv.Spec.AccessModes
	if err := p.user.Status().Patch(p.Context(), claim, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
	p.markBound(pv.Name)
}
