package driver

import (
	"context"
	"strings"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/records"
)

// nodeUse says how a volume is in use on this node.
type nodeUse interface {
	// notInUse gives a fault.InUse error while the volume is staged or
	// published here.
	notInUse(context.Context, backend.ID) error
	// isNode says whether an id is that of this node.
	isNode(id string) bool
}

// controllerService has the rules of the Controller service. It relies on
// controllerServer for one operation per volume at a time.
type controllerService struct {
	backend  backend.Backend
	features features
	node     nodeUse
	attached *records.AttachmentStore
	reach    reach
}

// create is idempotent by name, since the id is derived from the name. The source is needed
// only for a new volume: a repeated request succeeds after the source was deleted.
func (s *controllerService) create(ctx context.Context, r backend.Request) (backend.Volume, error) {
	if err := allows(s.backend, r.Capabilities, r.Parameters); err != nil {
		return backend.Volume{}, err
	}
	have, err := s.backend.Get(ctx, r.ID)
	if fault.NotFound.Is(err) {
		return s.begin(ctx, r)
	}
	if err != nil {
		return backend.Volume{}, err
	}
	if differences := compare(have, r); len(differences) > 0 {
		return backend.Volume{}, fault.Incompatible.Errorf(
			"volume %q exists with other properties: %s; use another name or delete the volume",
			r.Name,
			strings.Join(differences, ", "),
		)
	}
	return have, nil
}

// begin makes a volume that does not exist.
func (s *controllerService) begin(ctx context.Context, r backend.Request) (backend.Volume, error) {
	r.Asked = r.Size.Required
	if !r.Source.IsNothing() {
		source, err := s.sourceSize(ctx, r.Source)
		if err != nil {
			return backend.Volume{}, err
		}
		if r.Size, err = source.fit(r.Size); err != nil {
			return backend.Volume{}, err
		}
	}
	return s.backend.Create(ctx, r)
}

// sourceSize returns the size of the source, and the least request for a volume that begins with it.
func (s *controllerService) sourceSize(ctx context.Context, source backend.Source) (sourceSize, error) {
	if source.Snapshot == (backend.ID{}) {
		volume, err := s.backend.Get(ctx, source.Volume)
		return sourceSize{volume.CapacityBytes, volume.LeastSource()}, err
	}
	snapshot, err := s.features.snapshotter.GetSnapshot(ctx, source.Snapshot)
	return sourceSize{snapshot.SizeBytes, snapshot.LeastSource()}, err
}

// sourceSize is the size of what a volume begins with, and the required bytes that a request for the
// volume has at least: fewer, if the source was made for such a request and rounded up.
type sourceSize struct{ bytes, least int64 }

// fit raises a request to the size of the source, and refuses one for less than the source was made
// for. It is pure.
func (s sourceSize) fit(wish backend.Range) (backend.Range, error) {
	switch {
	case wish.Limit != 0 && wish.Limit < s.bytes:
		return wish, fault.OutOfRange.Errorf(
			"capacity_range.limit_bytes %d: the source has %d bytes; allow at least as many",
			wish.Limit,
			s.bytes,
		)
	case wish.Required != 0 && wish.Required < s.least:
		return wish, fault.OutOfRange.Errorf(
			"capacity_range.required_bytes %d: the source has %d bytes; ask for at least %d",
			wish.Required,
			s.bytes,
			s.least,
		)
	}
	wish.Required = max(wish.Required, s.bytes)
	return wish, nil
}

// allows returns an error unless the backend accepts the capabilities and parameters.
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
	if err := s.notAttached(id); err != nil {
		return err
	}
	if err := s.node.notInUse(ctx, id); err != nil {
		return err
	}
	if err := s.backend.Delete(ctx, id); err != nil || !s.features.zones.exist() {
		return err
	}
	return s.features.zones.store.Remove(id)
}

// get describes a volume by the id that the caller has.
func (s *controllerService) get(ctx context.Context, volumeID string) (backend.Volume, error) {
	id, err := backend.ParseID(volumeID)
	if err != nil {
		return backend.Volume{}, err
	}
	return s.backend.Get(ctx, id)
}

// validate gives the reason why the volume cannot be used as asked, "" when
// there is none.
func (s *controllerService) validate(ctx context.Context, r validation) (objection string, err error) {
	have, err := s.get(ctx, r.volumeID)
	if err != nil {
		return "", err
	}
	if err := allows(s.backend, r.capabilities, r.parameters); err != nil {
		return err.Error(), nil
	}
	if r.parameters != nil && !sameParameters(have.Parameters, r.parameters) {
		return "parameters: the volume was made with " + describeParameters(have.Parameters), nil
	}
	return s.unfit(ctx, have.ID, r.capabilities)
}

// unfit returns why this volume cannot have the capabilities, if the backend distinguishes between
// volumes.
func (s *controllerService) unfit(
	ctx context.Context,
	id backend.ID,
	capabilities []backend.Capability,
) (objection string, err error) {
	if s.features.particular == nil {
		return "", nil
	}
	for _, c := range capabilities {
		err := s.features.particular.CheckVolume(ctx, id, c)
		if fault.Invalid.Is(err) || fault.Unsupported.Is(err) || fault.Incompatible.Is(err) {
			return err.Error(), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}
