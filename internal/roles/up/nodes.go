package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
)

// mostNodes bounds the virtual nodes of one cluster: each is two objects that the scheduler and the
// provisioner keep in memory.
const mostNodes = 5000

func (u *Up) validateNodes() error {
	sized := strings.Contains(u.Zones.String(), "=")
	return errors.Join(
		cli.Need(u.Nodes >= 0 && u.Nodes <= mostNodes, "--nodes=%d: must be from 0 to %d", u.Nodes, mostNodes),
		cli.Need(
			u.Nodes <= 0 || u.Nodes >= len(u.Zones),
			"--nodes=%d: each of the %d zones of --zones needs a node; give at least as many, or 0", u.Nodes,
			len(u.Zones),
		),
		cli.Need(
			!u.WithKubelet ||
				len(u.nodes()) == 1, "--kubelet: a machine has one kubelet; leave out --nodes and --zones, or "+
				"--kubelet",
		),
		cli.Need(
			!sized || u.CSIAddress == "",
			"--zones=%s: only zones of the built-in driver have a size; leave the sizes out, or --csi-address",
			&u.Zones,
		),
	)
}

// nodes returns the virtual nodes of the cluster, spread evenly over the zones.
func (u *Up) nodes() []bootstrap.Node {
	count := max(u.Nodes, len(u.Zones), 1)
	nodes := make([]bootstrap.Node, 0, count)
	for i := range count {
		node := bootstrap.Node{Name: u.NodeName}
		if count > 1 {
			node.Name = fmt.Sprintf("%s-%d", u.NodeName, i+1)
		}
		if len(u.Zones) > 0 {
			node.Zone = u.Zones[i%len(u.Zones)].Name
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// hasSeveralNodes reports whether one driver serves more nodes than its own.
func (u *Up) hasSeveralNodes() bool { return len(u.nodes()) > 1 }

// bindingMode returns the binding mode of the default StorageClass: in a cluster with zones a
// volume is made where its pod is.
func (u *Up) bindingMode() storagev1.VolumeBindingMode {
	if len(u.Zones) > 0 {
		return storagev1.VolumeBindingWaitForFirstConsumer
	}
	return storagev1.VolumeBindingImmediate
}

// publishesCapacity reports whether the free capacity of each zone is published for the scheduler. A
// driver of the user may have no capacities, and its pods would not be scheduled.
func (u *Up) publishesCapacity() bool { return len(u.Zones) > 0 && u.CSIAddress == "" }

// registerNodes registers all nodes, and removes those of an `up` with other nodes on the same data
// folder.
func (h *upRun) registerNodes(ctx context.Context, at bootstrap.Place) error {
	nodes := h.nodes()
	if h.CSIAddress == "" {
		at.Capacity = h.publishesCapacity()
		at.Groups = groupPolicy(os.Geteuid())
		if h.hasSeveralNodes() {
			at.NodeID = ""
		}
	}
	for _, node := range nodes {
		if err := h.bootstrap.RegisterNode(ctx, at, node); err != nil {
			return err
		}
	}
	h.place = at
	return h.bootstrap.RemoveOtherNodes(ctx, nodes)
}

// groupPolicy returns the fsGroupPolicy of the built-in driver, as in its manifest. Without root the
// group of files cannot be changed, and a pod with an fsGroup gets its volumes as they are.
func groupPolicy(uid int) storagev1.FSGroupPolicy {
	if uid != 0 {
		return storagev1.NoneFSGroupPolicy
	}
	return storagev1.FileFSGroupPolicy
}

// describeNodes names the nodes for the screen.
func (u *Up) describeNodes() string {
	nodes := u.nodes()
	if len(nodes) == 1 {
		return "node " + nodes[0].Name
	}
	text := fmt.Sprintf("nodes %s to %s", nodes[0].Name, nodes[len(nodes)-1].Name)
	if len(u.Zones) > 0 {
		text += fmt.Sprintf(" in zones %s", &u.Zones)
	}
	return text
}
