package reclaim

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

// Client returns the driver for internal/reclaim. It deletes a volume, or skips the call, only
// if none of its nodes exists by a live read.
func (r *Reaper) Client() csi.ControllerClient { return confirming{r.CSI, r} }

type confirming struct {
	csi.ControllerClient
	reaper *Reaper
}

// DeleteVolume implements csi.ControllerClient.
func (c confirming) DeleteVolume(
	ctx context.Context, request *csi.DeleteVolumeRequest, opts ...grpc.CallOption,
) (*csi.DeleteVolumeResponse, error) {
	volumes := c.reaper.withHandle(request.GetVolumeId())
	if len(volumes) == 0 { // the last check found one of its nodes
		return nil, status.Error(codes.FailedPrecondition, "the nodes of the volume are not gone any more")
	}
	for _, pv := range volumes {
		node, err := c.reaper.nodeOf(ctx, pv)
		switch {
		case err != nil:
			return nil, status.Errorf(codes.Unavailable, "read the nodes of PersistentVolume %s: %v", pv.Name, err)
		case node != "":
			return nil, status.Errorf(codes.FailedPrecondition, "node %s of PersistentVolume %s exists", node, pv.Name)
		}
	}
	if c.ControllerClient == nil {
		logr.FromContextOrDiscard(ctx).Info(
			"the volume went with its node; the driver is not asked to delete it", "handle", request.GetVolumeId(),
		)
		return &csi.DeleteVolumeResponse{}, nil
	}
	return c.ControllerClient.DeleteVolume(ctx, request, opts...)
}

func (r *Reaper) withHandle(handle string) (all []*corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pv := range r.volumes {
		if pv.Spec.CSI != nil && pv.Spec.CSI.VolumeHandle == handle {
			all = append(all, pv)
		}
	}
	return all
}

// nodeOf returns an existing node of the volume, read live; empty for none.
func (r *Reaper) nodeOf(ctx context.Context, pv *corev1.PersistentVolume) (string, error) {
	now, err := kube.Get(ctx, r.Live, client.ObjectKeyFromObject(pv), &corev1.PersistentVolume{})
	if err != nil {
		return "", err
	}
	if now == nil || now.UID != pv.UID {
		return "", errChanged
	}
	nodes, err := r.nodes(ctx)
	if err != nil {
		return "", err
	}
	places := reclaim.RemovedPlaces(now.Spec.NodeAffinity, nodes)
	if places == nil {
		return "", errChanged
	}
	for _, place := range places {
		if node, err := r.nodeAt(ctx, place); node != "" || err != nil {
			return node, err
		}
	}
	return "", nil
}

// nodeAt returns the node with the name or the label, read live.
func (r *Reaper) nodeAt(ctx context.Context, place reclaim.Place) (string, error) {
	name, node := types.NamespacedName{Name: place.Value}, &metav1.PartialObjectMetadata{TypeMeta: nodeKind}
	node, err := kube.Get(ctx, r.Live, name, node)
	if err != nil || node != nil {
		return place.Value, err
	}
	if place.Key == reclaim.FieldNodeName {
		return "", nil
	}
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	if err := r.Live.List(ctx, list, client.MatchingLabels{place.Key: place.Value}, client.Limit(1)); err != nil {
		return "", fmt.Errorf("list the nodes with %s=%s: %w", place.Key, place.Value, err)
	}
	if len(list.Items) > 0 {
		return list.Items[0].Name, nil
	}
	return "", nil
}

var errChanged = errors.New("it is not a volume of removed nodes any more")

var nodeKind = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
