package live

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/test/rolestest"
)

// attemptDriver records the zone of each CreateVolume request. While a code is set, it answers with
// the code instead of a volume.
type attemptDriver struct {
	*scriptedDriver

	noted sync.Mutex
	zones []string
	code  codes.Code
}

func newAttemptDriver() *attemptDriver {
	d := &attemptDriver{scriptedDriver: &scriptedDriver{
		name: "csi.example", topology: true,
		capabilities: []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME},
	}}
	d.self = d
	return d
}

func (d *attemptDriver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.noted.Lock()
	defer d.noted.Unlock()
	place := r.GetAccessibilityRequirements().GetPreferred()[0]
	d.zones = append(d.zones, place.GetSegments()["zone"])
	if d.code != codes.OK {
		return nil, status.Error(d.code, "as the test says")
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(), AccessibleTopology: []*csi.Topology{place},
	}}, nil
}

func (d *attemptDriver) DeleteVolume(context.Context, *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, nil
}

// answer sets the code that the driver answers with from now on, and clears the recorded zones.
func (d *attemptDriver) answer(code codes.Code) {
	d.noted.Lock()
	defer d.noted.Unlock()
	d.code, d.zones = code, nil
}

// asked returns the zones of the requests in their order, without repetitions.
func (d *attemptDriver) asked() []string {
	d.noted.Lock()
	defer d.noted.Unlock()
	return slices.Compact(slices.Clone(d.zones))
}

// selectNode sets the scheduler's annotation with the selected node on a claim.
func (p liveCluster) selectNode(claim *corev1.PersistentVolumeClaim, node string) {
	p.Helper()
	rolestest.Eventually(p.T, "select "+node, func() error {
		if err := p.user.Get(p.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, names.AnnStorageProvisioner, "csi.example")
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, names.AnnSelectedNode, node)
		return p.user.Update(p.Context(), claim)
	})
}

// H-7, C-45: the topology of the second attempt. After a final error the claim gets another node,
// and the zone of that node is sent. After an uncertain error the zone in the journal is sent
// again, also after a restart, whatever node is selected by then.
func TestZoneOfTheSecondAttempt(t *testing.T) {
	p, d := newLiveCluster(t), newAttemptDriver()
	p.waitingClass("waits", d.name, nil)
	p.zonedNode("node-a", "a", d.name)
	p.zonedNode("node-b", "b", d.name)
	socket := d.serve(t)
	begin := func() (end func()) {
		role, _ := liveProvisioner(t, p.as("csi-provisioner"), socket, "--leader-election-namespace="+process.SystemNamespace,
			"--strict-topology", "--retry-interval-start=100ms", "--retry-interval-max=200ms")
		return rolestest.InBackground(t, role.Run)
	}
	volumeOf := func(claim *corev1.PersistentVolumeClaim) string {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1Name("pvc-" + string(claim.UID))}
		await(p, "the volume of "+claim.Name, pv, func(*corev1.PersistentVolume) bool { return true })
		return pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	}
	hasAsked := func(zones ...string) func() error {
		return func() error {
			if got := d.asked(); !slices.Equal(got, zones) {
				return fmt.Errorf("asked for zones %q, want %q", got, zones)
			}
			return nil
		}
	}
	end := begin()

	d.answer(codes.ResourceExhausted)
	claim := p.claim("final", new("waits"))
	p.selectNode(claim, "node-a")
	await(p, "the node is given back", claim, func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[names.AnnSelectedNode] == "" })
	if err := hasAsked("a")(); err != nil {
		t.Error(err)
	}
	d.answer(codes.OK)
	p.selectNode(claim, "node-b")
	if zone := volumeOf(claim); zone != "b" || hasAsked("b")() != nil {
		t.Errorf("H-7: the volume is in zone %s, asked for %q", zone, d.asked())
	}

	d.answer(codes.DeadlineExceeded)
	claim = p.claim("uncertain", new("waits"))
	p.selectNode(claim, "node-a")
	rolestest.Eventually(t, "the first attempt", hasAsked("a"))
	end()
	p.selectNode(claim, "node-b")
	d.answer(codes.Unavailable)
	end = begin()
	rolestest.Eventually(t, "C-45: the next process asks for the recorded zone", hasAsked("a"))
	d.answer(codes.OK)
	if zone := volumeOf(claim); zone != "a" || hasAsked("a")() != nil {
		t.Errorf("C-45: the volume is in zone %s, asked for %q", zone, d.asked())
	}
	end()
}

// C-41, S-15: a zone filled up since its capacity was published. CreateVolume is refused, the
// capacity of the zone is published again, and the claim is given back to the scheduler. It selects
// another zone, although the pod prefers the full one.
func TestResourceExhaustedReschedules(t *testing.T) {
	p := newLiveCluster(t, cluster.Scheduler)
	const gib = 1 << 30
	d := newZonedDriver(map[string]int64{"a": 4 * gib, "b": 4 * gib})
	t.Setenv("NAMESPACE", process.SystemNamespace)
	p.create(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}},
		&storagev1.CSIDriver{ObjectMeta: metav1Name(d.name), Spec: storagev1.CSIDriverSpec{AttachRequired: new(false), StorageCapacity: new(true)}},
	)
	p.waitingClass("fast", d.name, nil)
	for _, zone := range []string{"a", "b"} {
		p.zonedNode("node-"+zone, zone, d.name)
		p.editNode("node-"+zone, func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
		})
	}
	binder, _, _ := p.controllers()
	rolestest.InBackground(t, binder.Run)
	p.publishing(d.serve(t), "--capacity-ownerref-level=-1", "--capacity-poll-interval=10h", "--strict-topology")
	p.awaitCapacities("both zones", map[string]string{"fast a": "4Gi", "fast b": "4Gi"})
	d.set(func(d *zonedDriver) { d.room["a"] = 0 })

	p.claim("pod", new("fast"))
	pod := podWith("pod")
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
		}}},
	}}
	p.create(pod)
	await(p, "the pod is scheduled where there is room", pod, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "node-b" })
	creates := d.called("CreateVolume")
	if d.refused < 1 || d.refused > 2 || creates != d.refused+1 {
		t.Errorf("%d calls of CreateVolume, %d of them refused", creates, d.refused)
	}
	p.awaitCapacities("what is left", map[string]string{"fast a": "0", "fast b": "3Gi"})
	t.Logf("CreateVolume was called %d times, %d of them were refused", creates, d.refused)
}

// N-12: the central instance with the shipped permissions. The PV of a removed node is deleted,
// that of an existing node stays.
func TestReapRemovedNodes(t *testing.T) {
	p, d := newLiveCluster(t), newAttemptDriver()
	p.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "n1"}}})
	volumeOn := func(node string) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: "pv-" + node, Finalizers: []string{names.FinalizerVolume},
				Annotations: map[string]string{names.AnnProvisionedBy: d.name},
			},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "local",
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				ClaimRef:                      &corev1.ObjectReference{Namespace: "default", Name: "gone", UID: "u"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: d.name, VolumeHandle: "handle-" + node},
				},
				NodeAffinity: topology.Affinity([]*csi.Topology{{Segments: map[string]string{corev1.LabelHostname: node}}}),
			},
		}
		p.create(pv)
		before := pv.DeepCopy()
		pv.Status.Phase = corev1.VolumeReleased
		if err := p.user.Status().Patch(t.Context(), pv, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		return pv
	}
	there, gone := volumeOn("n1"), volumeOn("n9")
	role, _ := liveProvisioner(t, p.as("csi-provisioner"), d.serve(t), "--leader-election-namespace="+process.SystemNamespace,
		"--purser-reap-removed-nodes=driver", "--purser-reap-removed-nodes-after=2s")
	rolestest.InBackground(t, role.Run)
	await(p, "the volume of the removed node", gone, func(pv *corev1.PersistentVolume) bool { // its protection has no controller here
		return pv.DeletionTimestamp != nil && !slices.Contains(pv.Finalizers, names.FinalizerVolume)
	})
	err := p.user.Get(t.Context(), client.ObjectKeyFromObject(there), there)
	if err != nil || there.DeletionTimestamp != nil || d.called("DeleteVolume") != 1 {
		t.Errorf("the volume of the other node: %v, %v; DeleteVolume %d times", there.DeletionTimestamp, err, d.called("DeleteVolume"))
	}
}
