package live

import (
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/test/rolestest"
)

// Node-local volumes on two nodes, with a resizer beside the driver of each: a claim is expanded, and
// gets its class, by the instance of the node that has the volume. A volume without node affinity is
// that of the node whose provisioner created it.
func TestResizerOnEachNode(t *testing.T) {
	p := newLiveCluster(t)
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("growing"), Provisioner: "csi.example", AllowVolumeExpansion: new(true)})
	p.create(&storagev1.VolumeAttributesClass{
		ObjectMeta: metav1Name("fast"), DriverName: "csi.example", Parameters: map[string]string{"iops": "100"},
	})
	drivers := map[string]*modifier{"node-a": nodeDriver("node-a"), "node-b": nodeDriver("node-b")}
	for node, d := range drivers {
		p.resizerOf(node, d)
	}
	for node, other := range map[string]string{"node-a": "node-b", "node-b": "node-a"} {
		before := drivers[other].called("ControllerExpandVolume") + drivers[other].called("ControllerModifyVolume")
		placed, unplaced := p.boundPair("placed-"+node, "csi.example"), p.boundPair("unplaced-"+node, "csi.example")
		p.place("pv-placed-"+node, node)
		p.replaceWithCreatedBy("pv-unplaced-"+node, node)
		for _, claim := range []*corev1.PersistentVolumeClaim{placed, unplaced} {
			p.markBound(claim.Spec.VolumeName)
			p.name(claim, "fast")
			p.ask(claim, "2Gi")
			await(p, "it has 2Gi", claim, hasSize("2Gi"))
			await(p, "it has its class", claim, func(c *corev1.PersistentVolumeClaim) bool {
				return c.Status.CurrentVolumeAttributesClassName != nil && *c.Status.CurrentVolumeAttributesClassName == "fast"
			})
		}
		after := drivers[other].called("ControllerExpandVolume") + drivers[other].called("ControllerModifyVolume")
		if after != before {
			t.Errorf("volumes of %s: %d calls to the driver on %s", node, after-before, other)
		}
	}
}

// nodeDriver is a driver that expands and modifies the volumes of its node.
func nodeDriver(node string) *modifier {
	m := &modifier{answer: map[string]codes.Code{}}
	m.scriptedDriver = scriptedDriver{
		self: m, name: "csi.example", node: node, topology: true,
		capabilities: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		},
		expand: func(r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
			return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
		},
	}
	return m
}

// resizerOf runs the instance of a node.
func (p liveCluster) resizerOf(node string, d *modifier) {
	p.Helper()
	p.Setenv("NODE_NAME", node)
	r := resizer.New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	r.AddFlags(flags)
	args := []string{"--csi-address=" + d.serve(p.T), "--node-deployment", "--handle-volume-inuse-error=false"}
	if err := flags.Parse(args); err != nil || r.Validate() != nil {
		p.Fatal(err, r.Validate())
	}
	r.Version, r.API, r.Log = "test", p.as("csi-resizer"), (&rolestest.Log{}).Logger()
	started := make(chan struct{})
	r.Started = func() { close(started) }
	rolestest.InBackground(p.T, r.Run)
	select {
	case <-started:
	case <-time.After(time.Minute):
		p.Fatal("the resizer does not start")
	}
}

// place gives a volume the node affinity that the driver's topology leads to.
func (p liveCluster) place(volume, node string) {
	p.Helper()
	p.edit(volume, func(pv *corev1.PersistentVolume) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "example.com/node", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
	})
}

func (p liveCluster) edit(volume string, change func(*corev1.PersistentVolume)) {
	p.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(volume)}
	if err := p.user.Get(p.Context(), client.ObjectKeyFromObject(pv), pv); err != nil {
		p.Fatal(err)
	}
	before := pv.DeepCopy()
	change(pv)
	if err := p.user.Patch(p.Context(), pv, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
}

// markBound has the informer cache keep only the fields of a bound volume.
func (p liveCluster) markBound(volume string) {
	p.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(volume)}
	if err := p.user.Get(p.Context(), client.ObjectKeyFromObject(pv), pv); err != nil {
		p.Fatal(err)
	}
	before := pv.DeepCopy()
	pv.Status.Phase = corev1.VolumeBound
	if err := p.user.Status().Patch(p.Context(), pv, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
}

// replaceWithCreatedBy writes a volume anew, as the provisioner of a node without topology leaves it:
// the source of a volume cannot be changed.
func (p liveCluster) replaceWithCreatedBy(volume, node string) {
	p.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(volume)}
	if err := p.user.Get(p.Context(), client.ObjectKeyFromObject(pv), pv); err != nil {
		p.Fatal(err)
	}
	p.edit(volume, func(pv *corev1.PersistentVolume) { pv.Finalizers = nil })
	if err := p.user.Delete(p.Context(), pv); err != nil {
		p.Fatal(err)
	}
	again := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: pv.Spec}
	again.Spec.CSI.VolumeAttributes = map[string]string{names.AttributeProvisionerIdentity: "1700000000-1234-csi.example-" + node}
	p.create(again)
}
