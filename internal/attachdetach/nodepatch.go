package attachdetach

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// writeOnce writes the list of a node with all changes, and once more if it was not the list that was
// seen: another writer, or a stale cache.
func (n *nodeStatus) writeOnce(ctx context.Context, name string, changes []change) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, reconcile.APITimeout)
	defer cancel()
	node, err := kube.Get(ctx, n.read, types.NamespacedName{Name: name}, &corev1.Node{})
	if err != nil || node == nil {
		return nil, err
	}
	written, err := n.patch(ctx, node, changes)
	if !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		return written, err
	}
	node, err = kube.Get(ctx, n.Live, types.NamespacedName{Name: name}, &corev1.Node{})
	if err != nil || node == nil {
		return nil, err
	}
	return n.patch(ctx, node, changes)
}

// patch sends the whole list explicitly (4.6), and tests that the list is still the one that it was
// made from.
func (n *nodeStatus) patch(ctx context.Context, node *corev1.Node, changes []change) (*corev1.Node, error) {
	list := slices.Clone(node.Status.VolumesAttached)
	for _, c := range changes {
		list = slices.DeleteFunc(list, func(v corev1.AttachedVolume) bool { return v.Name == c.volume })
		if c.present == present {
			list = append(list, corev1.AttachedVolume{Name: c.volume})
		}
	}
	slices.SortFunc(list, compareVolumes)
	before := slices.Clone(node.Status.VolumesAttached)
	slices.SortFunc(before, compareVolumes)
	if slices.Equal(list, before) {
		return node, nil
	}
	raw, err := json.Marshal(listPatch(node, list))
	if err != nil {
		return nil, err
	}
	changed := node.DeepCopy()
	if err := n.Writer.Status().Patch(ctx, changed, client.RawPatch(types.JSONPatchType, raw)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("write the attached volumes of node %q: %w", node.Name, err)
	}
	return changed, nil
}

func listPatch(node *corev1.Node, list []corev1.AttachedVolume) []map[string]any {
	const path = "/status/volumesAttached"
	patch := []map[string]any{{"op": "test", "path": "/metadata/uid", "value": node.UID}}
	if len(node.Status.VolumesAttached) == 0 {
		patch = append(patch, map[string]any{"op": "test", "path": path, "value": nil})
	} else {
		patch = append(patch, map[string]any{"op": "test", "path": path, "value": node.Status.VolumesAttached})
	}
	if len(list) == 0 {
		return append(patch, map[string]any{"op": "remove", "path": path})
	}
	return append(patch, map[string]any{"op": "add", "path": path, "value": list})
}

func compareVolumes(a, b corev1.AttachedVolume) int {
	if a.Name < b.Name {
		return -1
	} else if a.Name > b.Name {
		return 1
	}
	return 0
}
