package capacity

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

// objectChanges enqueues the key of an object that another client changed or deleted (S-12), and of
// an object that the plan does not have. An object with the values that this process wrote last
// needs no run. What another client undoes again and again is repaired after growing delays.
func (c *Controller) objectChanges() handler.TypedEventHandler[*storagev1.CSIStorageCapacity, capacity.Key] {
	return reconcile.OnChange(func(_ context.Context, change reconcile.Change[*storagev1.CSIStorageCapacity], _ queue) {
		object := change.Object()
		key, ok := capacity.KeyOf(object)
		plan := c.plan.Load()
		if !ok || plan == nil || !c.Rules.Owns(object) { // the first plan enqueues all objects
			return
		}
		switch isPlanned := plan.Keys[key]; {
		case !isPlanned:
			c.enqueue(priorityNew, key)
		case change.IsDeleted() || c.answers.get(key).wanted != capacity.ValuesOf(object):
			c.enqueueAfter(priorityNew, c.answers.undone(key, c.backoff()), key)
		}
	})
}

// volumeDeletions enqueues the keys of the segments where a volume of the driver was deleted (S-15).
func (c *Controller) volumeDeletions() handler.TypedEventHandler[*corev1.PersistentVolume, capacity.Key] {
	return reconcile.OnDelete(func(_ context.Context, pv *corev1.PersistentVolume) []capacity.Key {
		if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != c.Rules.Driver {
			return nil
		}
		if places := capacity.OfAffinity(pv.Spec.NodeAffinity); len(places) > 0 {
			c.enqueue(priorityTouched, c.plan.Load().Touched(places)...)
		}
		return nil
	})
}

// Observe wraps the client of a driver: each CreateVolume call, successful or not, enqueues the
// capacities that it changes (S-15).
func (c *Controller) Observe(driver csi.ControllerClient) csi.ControllerClient {
	return observedDriver{driver, c}
}

type observedDriver struct {
	csi.ControllerClient
	controller *Controller
}

// CreateVolume implements csi.ControllerClient. After a success the segments are those of the new
// volume. After an error it is the first preferred segment, whose published capacity is probably
// wrong. Upstream refreshes all segments of the class, which takes a call for each node.
func (d observedDriver) CreateVolume(
	ctx context.Context, request *csi.CreateVolumeRequest, options ...grpc.CallOption,
) (*csi.CreateVolumeResponse, error) {
	response, err := d.ControllerClient.CreateVolume(ctx, request, options...)
	places := response.GetVolume().GetAccessibleTopology()
	if preferred := request.GetAccessibilityRequirements().GetPreferred(); err != nil && len(preferred) > 0 {
		places = preferred[:1]
	}
	var segments []capacity.Segment
	for _, place := range places {
		if len(place.GetSegments()) > 0 {
			segments = append(segments, capacity.NewSegment(place.GetSegments()))
		}
	}
	d.controller.enqueue(priorityTouched, d.controller.plan.Load().Touched(segments)...)
	return response, err
}
