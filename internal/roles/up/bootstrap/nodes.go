package bootstrap

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/names"
)

// Place is the node and the topology of the driver.
type Place struct {
	Driver csirpc.Description
	// NodeID is the driver's name for its node, and for all nodes of the cluster; empty where each
	// node goes by its own name.
	NodeID string
	// Groups is the fsGroupPolicy of the driver; empty for the API server's default, by which the
	// fsGroup of a pod does nothing on a volume whose class names no filesystem.
	Groups storagev1.FSGroupPolicy
	// Capacity has the scheduler place pods by the free capacity of the driver.
	Capacity bool
	segments map[string]string
}

// FindPlace calls NodeGetInfo. A driver without a node service on this socket has the zero Place.
func FindPlace(ctx context.Context, conn *csirpc.Conn, driver csirpc.Description) Place {
	p := Place{Driver: driver}
	ctx, cancel := context.WithTimeout(ctx, conn.Timeout())
	defer cancel()
	if info, err := conn.Node().NodeGetInfo(ctx, &csi.NodeGetInfoRequest{}); err == nil {
		p.NodeID, p.segments = info.GetNodeId(), info.GetAccessibleTopology().GetSegments()
	}
	return p
}

// Node is a virtual node: a Node and a CSINode without a machine.
type Node struct {
	Name string
	Zone string // empty for none
}

// labels returns the labels of the node: what a kubelet sets, and the segments of the driver. The
// zone of the node takes the place of the driver's.
func (n Node) labels(at Place) map[string]string {
	labels := map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}
	maps.Copy(labels, at.segments)
	if n.Zone != "" {
		labels[corev1.LabelTopologyZone] = n.Zone
	}
	return labels
}

// reasonOfReady marks the nodes that `up` made, in their condition Ready.
const reasonOfReady = "PurserUp"

// RegisterNode does what kubelet does when a driver appears: a node that pods can be scheduled to,
// and the driver on it. The node stays Ready without a heartbeat: no node lifecycle controller runs
// in the cluster.
func (f Setup) RegisterNode(ctx context.Context, at Place, n Node) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	if err := f.create(ctx, node); err != nil {
		return err
	}
	if err := f.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, n.labels(at))
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, names.AnnManagedAttach, "true")
	node.Spec.Taints = nil // admission taints every new node as not ready
	if err := f.Client.Update(ctx, node); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: reasonOfReady,
		Message:           "a node without a kubelet",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	node.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("10000"),
	}
	node.Status.Allocatable = node.Status.Capacity
	if err := f.Client.Status().Update(ctx, node); err != nil {
		return fmt.Errorf("status of node %s: %w", n.Name, err)
	}
	return f.RegisterDriver(ctx, at, n)
}

// RegisterDriver writes the CSINode and the CSIDriver: the driver on the node.
func (f Setup) RegisterDriver(ctx context.Context, at Place, n Node) error {
	nodeID := at.NodeID
	if nodeID == "" {
		nodeID = n.Name
	}
	csiNode := &storagev1.CSINode{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: at.Driver.Name, NodeID: nodeID, TopologyKeys: slices.Sorted(maps.Keys(at.segments)),
		}}},
	}
	have := &storagev1.CSINode{}
	err := f.Client.Get(ctx, client.ObjectKeyFromObject(csiNode), have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("CSINode %s: %w", n.Name, err)
	}
	if err == nil && equality.Semantic.DeepEqual(have.Spec, csiNode.Spec) {
		return f.createDriver(ctx, at)
	}
	// An earlier `up` with this data folder may have had another driver, and an entry is immutable.
	if err := f.Client.Delete(ctx, csiNode.DeepCopy()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("CSINode %s: %w", n.Name, err)
	}
	if err := f.create(ctx, csiNode); err != nil {
		return err
	}
	return f.createDriver(ctx, at)
}

// createDriver creates the CSIDriver. It replaces that of a previous `up` with another attachRequired,
// storageCapacity or fsGroupPolicy.
func (f Setup) createDriver(ctx context.Context, at Place) error {
	object := &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: at.Driver.Name},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: new(Attaches(at.Driver)), StorageCapacity: &at.Capacity},
	}
	if at.Groups != "" {
		object.Spec.FSGroupPolicy = &at.Groups
	}
	before := &storagev1.CSIDriver{}
	err := f.Client.Get(ctx, client.ObjectKeyFromObject(object), before)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("CSIDriver %s: %w", object.Name, err)
	}
	if err == nil && isOther(before.Spec, object.Spec) {
		if err := f.Client.Delete(ctx, before); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("previous CSIDriver %s: %w", object.Name, err)
		}
	}
	return f.create(ctx, object)
}

func isOther(before, now storagev1.CSIDriverSpec) bool {
	return *before.AttachRequired != *now.AttachRequired ||
		ptr.Deref(before.StorageCapacity, false) != *now.StorageCapacity ||
		now.FSGroupPolicy != nil && (before.FSGroupPolicy == nil || *before.FSGroupPolicy != *now.FSGroupPolicy)
}

// RemoveOtherNodes removes the nodes of a previous `up` that are not among these, with their
// CSINodes.
func (f Setup) RemoveOtherNodes(ctx context.Context, stay []Node) error {
	var nodes corev1.NodeList
	if err := f.Client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		stays := slices.ContainsFunc(stay, func(n Node) bool { return n.Name == node.Name })
		if stays || !slices.ContainsFunc(node.Status.Conditions, isOurs) {
			continue
		}
		csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		for _, object := range []client.Object{csiNode, node} {
			if err := f.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("previous node %s: %w", node.Name, err)
			}
		}
	}
	return nil
}

func isOurs(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeReady && c.Reason == reasonOfReady
}
