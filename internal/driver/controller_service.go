package driver

import (
	"context"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/publication"
)

// publications says where a volume is published on this node.
type publications interface {
	Live(context.Context, backend.ID) ([]publication.Record, error)
}

// controllerService has the rules of the Controller service. It relies on
// controllerServer for one operation per volume at a time.
type controllerService struct {
	backend   backend.Backend
	features  features
	published publications
}

// create is idempotent by name: the name leads to the id.
func (s *controllerService) create(ctx context.Context, r backend.Request) (backend.Volume, error) {
	if err := allows(s.backend, r.Capabilities, r.Parameters); err != nil {
		return backend.Volume{}, err
	}
	have, err := s.backend.Get(ctx, r.ID)
	if fault.NotFound.Is(err) {
		return s.backend.Create(ctx, r)
	}
	if err != nil {
		return backend.Volume{}, err
	}
	if differences := compare(have, r); len(differences) > 0 {
		return backend.Volume{}, fault.Incompatible.Errorf("volume %q exists with other properties: %s; use another name or delete the volume",
			r.Name, strings.Join(differences, ", "))
	}
	return have, nil
}

// allows asks the backend about everything that was requested.
func allows(rules backend.Rules, capabilities []backend.Capability, parameters map[string]string) error {
	for _, c := range capabilities {
		if err := rules.CheckCapability(c); err != nil {
			return err
		}
	}
	return rules.CheckParameters(parameters)
}

// remove treats an id that no volume can have like a volume that is gone
// ("DeleteVolume": MUST reply OK).
func (s *controllerService) remove(ctx context.Context, volumeID string) error {
	id, err := backend.ParseID(volumeID)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("Nothing to delete: this driver makes no such ids")
		return nil
	}
	live, err := s.published.Live(ctx, id)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		return fault.InUse.Errorf("volume %q is published on this node at %s; unpublish it first", id, targets(live))
	}
	return s.backend.Delete(ctx, id)
}

func targets(records []publication.Record) string {
	paths := make([]string, 0, len(records))
	for _, record := range records {
		paths = append(paths, record.Target)
	}
	return strings.Join(paths, ", ")
}

// validate gives the reason why the volume cannot be used as asked, "" when
// there is none.
func (s *controllerService) validate(ctx context.Context, r validation) (objection string, err error) {
	id, err := backend.ParseID(r.volumeID)
	if err != nil {
		return "", err
	}
	have, err := s.backend.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if err := allows(s.backend, r.capabilities, r.parameters); err != nil {
		return err.Error(), nil
	}
	if r.parameters != nil && !sameParameters(have.Parameters, r.parameters) {
		return "parameters: the volume was made with " + describeParameters(have.Parameters), nil
	}
	return "", nil
}

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

// available is zero for what the backend could not make at all
// (GetCapacityRequest: SHALL report what satisfies all capabilities and the
// parameters).
func (s *controllerService) available(ctx context.Context, w wish) (int64, error) {
	err := allows(s.backend, w.capabilities, w.parameters)
	if fault.Invalid.Is(err) {
		logr.FromContextOrDiscard(ctx).V(levelQuestion).Info("No capacity for such volumes", "reason", err.Error())
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return s.features.pool.Available(ctx)
}

// toMessage leaves the volume context empty: the id says everything.
func toMessage(v backend.Volume) *csi.Volume {
	return &csi.Volume{VolumeId: v.ID.String(), CapacityBytes: v.CapacityBytes}
}
