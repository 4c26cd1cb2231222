package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	mounting "github.com/purser-csi/purser/internal/node/rules"
)

var errNoNode = errors.New("the Node object does not exist yet; the driver is registered when it does")

// writeDrivers writes what drivers say of the node: the annotation and the labels of the Node, and
// the entries of the CSINode, from which the scheduler and the provisioner see the drivers (5.12). It
// returns the uid of the Node. A driver whose topology contradicts the labels of the Node is left out
// and is in the error.
func (a *Agent) writeDrivers(ctx context.Context, drivers []registered) (written types.UID, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := a.liveNode(ctx)
		if err != nil {
			return err
		}
		labels, ids, entries := map[string]string{}, map[string]string{}, []storagev1.CSINodeDriver{}
		var collisions []error
		for _, r := range drivers {
			segments := r.info.GetAccessibleTopology().GetSegments()
			if err := collision(node, segments); err != nil {
				collisions = append(collisions, err)
				continue
			}
			maps.Copy(labels, segments)
			ids[r.Name] = r.info.GetNodeId()
			entries = append(entries, entryOf(r.Name, r.info))
		}
		if len(entries) == 0 {
			return errors.Join(collisions...)
		}
		if err := a.annotate(ctx, node, labels, func(all map[string]string) { maps.Copy(all, ids) }); err != nil {
			return err
		}
		err = a.editCSINode(ctx, node, func(spec *storagev1.CSINodeSpec) {
			for _, entry := range entries {
				setDriver(spec, entry)
			}
		})
		written = node.UID
		return errors.Join(append(collisions, err)...)
	})
	return written, err
}

func collision(node *corev1.Node, segments map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(segments)) {
		if have, ok := node.Labels[key]; ok && have != segments[key] {
			return fmt.Errorf(
				"detected topology value collision: driver reported %q:%q but existing label is %q:%q", key,
				segments[key], key, have,
			)
		}
	}
	return nil
}

// eraseDriver removes the entry and the annotation of a driver that is gone. The labels stay, as
// with a kubelet: volumes may need them.
func (a *Agent) eraseDriver(ctx context.Context, name string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := a.liveNode(ctx)
		if err != nil {
			return err
		}
		if err := a.annotate(ctx, node, nil, func(ids map[string]string) { delete(ids, name) }); err != nil {
			return err
		}
		return a.editCSINode(ctx, node, func(spec *storagev1.CSINodeSpec) {
			spec.Drivers = slices.DeleteFunc(
				spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name },
			)
		})
	})
}

func (a *Agent) liveNode(ctx context.Context) (*corev1.Node, error) {
	node, err := kube.Get(ctx, a.Live, types.NamespacedName{Name: a.Node}, &corev1.Node{})
	if err == nil && node == nil {
		err = errNoNode
	}
	return node, err
}

// annotate writes the ids of the node and its labels in one patch, if they are news.
func (a *Agent) annotate(
	ctx context.Context, node *corev1.Node, labels map[string]string, edit func(map[string]string),
) error {
	ids := map[string]string{}
	if have := node.Annotations[names.AnnNodeID]; have != "" {
		if err := json.Unmarshal([]byte(have), &ids); err != nil {
			return fmt.Errorf("node %s: annotation %s: %w", node.Name, names.AnnNodeID, err)
		}
	}
	edit(ids)
	value, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	missing := map[string]string{}
	for key, value := range labels {
		if node.Labels[key] != value {
			missing[key] = value
		}
	}
	if len(missing) == 0 && node.Annotations[names.AnnNodeID] == string(value) {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "resourceVersion": node.ResourceVersion,
		"labels": missing, "annotations": map[string]string{names.AnnNodeID: string(value)},
	}})
	if err != nil {
		return err
	}
	changed := node.DeepCopy()
	if err := a.Writer.Patch(ctx, changed, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return fmt.Errorf("write the driver's id of node %s: %w", node.Name, err)
	}
	return nil
}

// editCSINode creates or updates the CSINode, which the Node owns. One that a deleted Node of the same
// name owns is replaced: the garbage collector deletes it otherwise, at any time.
func (a *Agent) editCSINode(ctx context.Context, node *corev1.Node, edit func(*storagev1.CSINodeSpec)) error {
	have, err := kube.Get(ctx, a.Live, types.NamespacedName{Name: a.Node}, &storagev1.CSINode{})
	if err != nil {
		return err
	}
	var spec storagev1.CSINodeSpec
	if have != nil && mounting.IsOfAnotherNode(have, node) {
		if err := a.deleteCSINode(ctx, have); err != nil {
			return err
		}
		spec.Drivers = slices.DeleteFunc(
			have.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return !a.drivers.isKnown(d.Name) },
		)
		have = nil
	}
	if have == nil {
		return a.createCSINode(ctx, node, spec, edit)
	}
	before := have.Spec.DeepCopy()
	edit(&have.Spec)
	if equalDrivers(before.Drivers, have.Spec.Drivers) {
		return nil
	}
	if err := a.Writer.Update(ctx, have); err != nil {
		return fmt.Errorf("write CSINode %s: %w", a.Node, err)
	}
	return nil
}

func (a *Agent) createCSINode(
	ctx context.Context, node *corev1.Node, spec storagev1.CSINodeSpec, edit func(*storagev1.CSINodeSpec),
) error {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	made := &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: a.Node, OwnerReferences: []metav1.OwnerReference{owner}}, Spec: spec,
	}
	edit(&made.Spec)
	err := a.Writer.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		return apierrors.NewConflict(storagev1.Resource("csinodes"), a.Node, err)
	}
	return err
}

// deleteCSINode deletes this very CSINode, and none that was created again under its name.
func (a *Agent) deleteCSINode(ctx context.Context, csiNode *storagev1.CSINode) error {
	err := a.Writer.Delete(ctx, csiNode.DeepCopy(), client.Preconditions{UID: &csiNode.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete CSINode %s of a previous Node: %w", a.Node, err)
	}
	return nil
}

func entryOf(name string, info *csi.NodeGetInfoResponse) storagev1.CSINodeDriver {
	keys := slices.Sorted(maps.Keys(info.GetAccessibleTopology().GetSegments()))
	entry := storagev1.CSINodeDriver{Name: name, NodeID: info.GetNodeId(), TopologyKeys: keys}
	if most := info.GetMaxVolumesPerNode(); most > 0 {
		count := int32(min(most, 1<<31-1)) //nolint:gosec // bounded
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
	}
	return entry
}

func setDriver(spec *storagev1.CSINodeSpec, entry storagev1.CSINodeDriver) {
	i := slices.IndexFunc(spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == entry.Name })
	if i < 0 {
		spec.Drivers = append(spec.Drivers, entry)
		return
	}
	spec.Drivers[i] = entry
}

func equalDrivers(a, b []storagev1.CSINodeDriver) bool {
	return slices.EqualFunc(a, b, func(x, y storagev1.CSINodeDriver) bool {
		return x.Name == y.Name && x.NodeID == y.NodeID && limit(x) == limit(y) &&
			slices.Equal(x.TopologyKeys, y.TopologyKeys)
	})
}

func limit(d storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return -1
	}
	return *d.Allocatable.Count
}
