package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// list shows a damaged volume by its id alone: it exists, and one bad file
// must not hide all the others.
func (s *controllerService) list(ctx context.Context, p page) (volumes []backend.Volume, next string, err error) {
	ids, err := s.features.lister.List(ctx)
	if err != nil {
		return nil, "", err
	}
	ids, next = p.cut(ids)
	for _, id := range ids {
		volume, err := s.backend.Get(ctx, id)
		if fault.NotFound.Is(err) {
			continue
		}
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Listing a volume without its properties", "id", id.String())
			volume = backend.Volume{ID: id}
		}
		volumes = append(volumes, volume)
	}
	return volumes, next, nil
}

// capacity is a response to GetCapacity; a least size of 0 is not known.
type capacity struct{ available, least int64 }

// capacity returns nothing available for volumes that the backend cannot create at all
// (GetCapacityRequest: SHALL report what satisfies all capabilities and the
// parameters).
func (s *controllerService) capacity(ctx context.Context, w wish) (capacity, error) {
	if w.elsewhere {
		return capacity{}, nil
	}
	err := allows(s.backend, w.capabilities, w.parameters)
	if fault.Invalid.Is(err) {
		logr.FromContextOrDiscard(ctx).V(levelQuestion).Info("No capacity for such volumes", "reason", err.Error())
		return capacity{}, nil
	}
	if err != nil {
		return capacity{}, err
	}
	var r capacity
	if r.available, err = s.features.pool.Available(ctx); err != nil {
		return r, err
	}
	r.available = s.features.zones.bound(r.available, w.zones)
	if s.features.sized == nil {
		return r, nil
	}
	r.least, err = s.features.sized.LeastSize(w.capabilities)
	return r, err
}

// health asks the backend about one volume.
func (s *controllerService) health(ctx context.Context, volumeID string) (*csi.VolumeHealth, error) {
	id, err := backend.ParseID(volumeID)
	if err != nil {
		return nil, err
	}
	return healthOf(ctx, s.features.health, id)
}

// healthOf reports a volume that the backend cannot check as one that no pod can use. It does not
// report the volume as deleted, since the caller can fix the cause.
func healthOf(ctx context.Context, reader backend.HealthReader, id backend.ID) (*csi.VolumeHealth, error) {
	health := &csi.VolumeHealth{VolumeId: id.String()}
	problem, err := reader.Health(ctx, id)
	switch {
	case fault.Internal.Is(err) && ctx.Err() == nil:
		health.HealthStatuses = ailment(csi.VolumeHealthErrorType_INACCESSIBLE, "Damaged", err.Error())
	case err != nil:
		return nil, err
	case problem.Unusable:
		health.HealthStatuses = ailment(csi.VolumeHealthErrorType_INACCESSIBLE, problem.Reason, problem.Message)
	case problem.Reason != "":
		health.HealthStatuses = ailment(csi.VolumeHealthErrorType_DEGRADED, problem.Reason, problem.Message)
	}
	return health, nil
}

func ailment(status csi.VolumeHealthErrorType, reason, message string) []*csi.VolumeHealth_VolumeHealthEntry {
	return []*csi.VolumeHealth_VolumeHealthEntry{{Status: status, Reason: reason, Message: message}}
}

// ailing lists volumes with problems only (ControllerListVolumeHealthResponse: abnormal entries). A
// page covers a fixed number of checked volumes, healthy or not. So it can be shorter than
// requested, even empty, and still have a next page: no page takes as long as all volumes together.
func (s *controllerService) ailing(ctx context.Context, p page) (entries []*csi.VolumeHealth, next string, err error) {
	ids, err := s.features.lister.List(ctx)
	if err != nil {
		return nil, "", err
	}
	ids, next = p.cut(ids)
	for _, id := range ids {
		health, err := healthOf(ctx, s.features.health, id)
		if fault.NotFound.Is(err) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if len(health.GetHealthStatuses()) > 0 {
			entries = append(entries, health)
		}
	}
	return entries, next, nil
}
