package live

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/test/rolestest"
)

// exclusiveDisks is a driver that knows where each volume is and refuses a second node.
type exclusiveDisks struct {
	scriptedDriver

	where     sync.Map // volume: node
	conflicts sync.Map // volumes with a request for a second node
}

func newExclusiveDisks() *exclusiveDisks {
	d := &exclusiveDisks{}
	d.name = "csi.example"
	d.capabilities = []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME}
	d.publish = func(r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
		if node, taken := d.where.LoadOrStore(r.GetVolumeId(), r.GetNodeId()); taken && node != r.GetNodeId() {
			d.conflicts.Store(r.GetVolumeId(), true)
			return nil, status.Error(codes.FailedPrecondition, "attached elsewhere")
		}
		return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"device": "/dev/x"}}, nil
	}
	d.unpublish = func(r *csi.ControllerUnpublishVolumeRequest) error {
		d.where.CompareAndDelete(r.GetVolumeId(), r.GetNodeId())
		return nil
	}
	return d
}

// wholeAttaching is a cluster with two nodes, the attach-detach controller and the attacher, with
// the permissions as shipped.
func wholeAttaching(t *testing.T, d *exclusiveDisks) liveCluster {
	t.Helper()
	p := newLiveCluster(t)
	p.attachingWith(d)
	return p
}

// attachingWith starts the attach-detach controller and the attacher, and returns the address of
// the attach-detach controller.
func (p liveCluster) attachingWith(d *exclusiveDisks, args ...string) (address func() string) {
	p.Helper()
	t := p.T
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("growing"), Provisioner: d.name})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	if err := client.IgnoreAlreadyExists(p.user.Create(t.Context(), account)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		p.readyNode(name, d.name)
	}
	a := attacher.New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.AddFlags(flags)
	if err := flags.Parse(append(slices.Clone(quickly), "--csi-address="+d.serve(t))); err != nil || a.Validate() != nil {
		t.Fatal(err, a.Validate())
	}
	a.Version, a.API, a.Log = "test", p.as("csi-attacher"), (&rolestest.Log{}).Logger()
	c, address, _ := p.controllers(append(args, "--controllers=attachdetach")...)
	var started sync.WaitGroup
	started.Add(2)
	a.Started, c.Started = started.Done, started.Done
	rolestest.InBackground(t, a.Run)
	rolestest.InBackground(t, c.Run)
	done := make(chan struct{})
	go func() { started.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the attacher or the controller does not start")
	}
	return address
}

// readyNode is a node that is ready, with the driver registered.
func (p liveCluster) readyNode(name, driver string) {
	p.Helper()
	p.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{names.AnnManagedAttach: "true"}}})
	p.node(name, "id-"+name, driver)
	p.editNode(name, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
}

func (p liveCluster) editNode(name string, edit func(*corev1.Node)) {
	p.Helper()
	rolestest.Eventually(p.T, "the status of node "+name, func() error {
		node := &corev1.Node{ObjectMeta: metav1Name(name)}
		if err := p.user.Get(p.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		edit(node)
		return p.user.Status().Update(p.Context(), node)
	})
}

func (p liveCluster) podOn(name, node, claim string) *corev1.Pod {
	p.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: new(int64(0)),
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}},
	}}
	p.create(pod)
	return pod
}

// lists waits until a node's status lists the volume, or does not.
func (p liveCluster) lists(node string, want int) {
	p.Helper()
	await(p, fmt.Sprintf("node %s lists %d volumes", node, want), &corev1.Node{ObjectMeta: metav1Name(node)}, func(n *corev1.Node) bool {
		return len(n.Status.VolumesAttached) == want
	})
}

func (p liveCluster) noAttachments() {
	p.Helper()
	rolestest.Eventually(p.T, "no VolumeAttachment is left", func() error {
		var list storagev1.VolumeAttachmentList
		err := p.user.List(context.Background(), &list)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left, the first with %v and status %+v", len(list.Items), list.Items[0].Finalizers, list.Items[0].Status)
		}
		return err
	})
}

// A pod comes, goes and comes on another node (4.4, AT-A*, AT-D*): one call each, and the counts of
// writes of section 6.4.
func TestAttachAndDetach(t *testing.T) {
	d := newExclusiveDisks()
	p := wholeAttaching(t, d)
	claim := p.boundPair("data", d.name)
	begin := p.mark()
	pod := p.podOn("first", "a", claim.Name)
	p.lists("a", 1)
	rolestest.Eventually(t, "the event of the attachment", func() error { return p.events(pod, "SuccessfulAttachVolume") })
	p.mustWrite(begin, "csi-attacher", map[string]int{
		"patch persistentvolumes": 1, "patch volumeattachments": 1, "patch volumeattachments/status": 1,
	}, 1)
	attached := p.mustWrite(begin, "controllers", map[string]int{
		"create volumeattachments": 1, "patch nodes/status": 1,
	}, 1)

	if err := p.user.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	p.noAttachments()
	p.lists("a", 0)
	p.mustWrite(attached, "csi-attacher", map[string]int{"patch volumeattachments": 1}, 1)
	p.mustWrite(attached, "controllers", map[string]int{"delete volumeattachments": 1, "patch nodes/status": 1}, 1)
	p.podOn("second", "b", claim.Name)
	p.lists("b", 1)
	if n, m := d.called("ControllerPublishVolume"), d.called("ControllerUnpublishVolume"); n != 2 || m != 1 {
		t.Errorf("%d publishes and %d unpublishes, want 2 and 1", n, m)
	}
}

// 4.4: an exclusive volume is not detached while its node reports it in use, and until then no
// attach to another node is requested.
func TestDetachWaitsForTheNode(t *testing.T) {
	d := newExclusiveDisks()
	p := wholeAttaching(t, d)
	claim := p.boundPair("data", d.name)
	unique := corev1.UniqueVolumeName(names.UniqueVolumeName(d.name, "h-data"))
	// A kubelet reports a volume in use before it is attached. So the controller has it in its cache
	// when it has listed the volume.
	p.editNode("a", func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{unique} })
	first := p.podOn("first", "a", claim.Name)
	p.lists("a", 1)
	second := p.podOn("second", "b", claim.Name)
	rolestest.Eventually(t, "the event of the conflict", func() error { return p.events(second, "FailedAttachVolume") })
	if err := p.user.Delete(t.Context(), first, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	third := p.podOn("third", "b", claim.Name) // what comes after the deletion has been decided on when this pod has its event
	rolestest.Eventually(t, "the event of the conflict", func() error { return p.events(third, "FailedAttachVolume") })
	if m := d.called("ControllerUnpublishVolume"); m != 0 {
		t.Errorf("%d unpublishes while the node reports the volume in use", m)
	}
	p.editNode("a", func(n *corev1.Node) { n.Status.VolumesInUse = nil })
	p.lists("b", 1)
	p.lists("a", 0)
	d.conflicts.Range(func(volume, _ any) bool { t.Errorf("volume %v was asked for two nodes", volume); return true })
}

// R8: volumes are detached from a node with the taint out-of-service at once, whatever it reports
// in use.
func TestOutOfService(t *testing.T) {
	d := newExclusiveDisks()
	p := wholeAttaching(t, d)
	claim := p.boundPair("data", d.name)
	pod := p.podOn("first", "a", claim.Name)
	p.lists("a", 1)
	unique := corev1.UniqueVolumeName(names.UniqueVolumeName(d.name, "h-data"))
	p.editNode("a", func(n *corev1.Node) {
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{unique}
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	})
	if err := p.user.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	p.podOn("second", "b", claim.Name)
	before := &corev1.Node{ObjectMeta: metav1Name("a")}
	if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(before), before); err != nil {
		t.Fatal(err)
	}
	after := before.DeepCopy()
	after.Spec.Taints = append(after.Spec.Taints, corev1.Taint{Key: names.TaintOutOfService, Value: "x", Effect: corev1.TaintEffectNoExecute})
	if err := p.user.Patch(t.Context(), after, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	p.lists("b", 1)
}
