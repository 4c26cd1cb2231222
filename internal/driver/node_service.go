package driver

import (
	"context"
	"errors"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"

	"github.com/purser-csi/purser/internal/driver/records"
	"github.com/purser-csi/purser/internal/driver/reserve"
	"github.com/purser-csi/purser/internal/mount"
)

// nodeService has the rules of the Node service. It relies on nodeServer for
// one operation per volume and per target at a time.
type nodeService struct {
	nodeID    string
	rules     backend.Rules
	features  features
	mounter   mount.Mounter
	published *records.PublicationStore
	staged    *records.StagingStore
}

// isNode implements nodeUse.
func (s *nodeService) isNode(id string) bool { return id == s.nodeID }

func (s *nodeService) publish(ctx context.Context, r publishing) error {
	id, err := backend.ParseID(r.volumeID)
	if err != nil {
		return err
	}
	if err := s.rules.CheckCapability(r.capability); err != nil {
		return exceeds(id, err)
	}
	source, err := s.sourceToPublish(ctx, id, r)
	if err != nil {
		return err
	}
	want := records.Publication{
		Volume: id, Target: r.target, Source: source,
		Type: r.capability.Type, Mode: r.capability.Mode, FSType: r.capability.FSType, ReadOnly: r.readOnly,
	}
	if err := s.mayPublish(ctx, want); err != nil {
		return err
	}
	return s.make(want)
}

// exceeds is "Exceeds capabilities" of the node's calls.
func exceeds(id backend.ID, err error) error {
	return fault.Unsupported.Errorf("volume %q does not have this capability: %w", id, err)
}

// sourceToPublish returns the device or directory to mount at the target.
func (s *nodeService) sourceToPublish(ctx context.Context, id backend.ID, r publishing) (string, error) {
	if s.features.stager == nil {
		return s.features.direct.Source(ctx, id)
	}
	return s.stagedSource(ctx, id, r)
}

// source returns the device or directory that targets of the volume show, without a request to
// publish it.
func (s *nodeService) source(ctx context.Context, id backend.ID) (string, error) {
	if s.features.stager == nil {
		return s.features.direct.Source(ctx, id)
	}
	have, found, err := s.staged.Of(id)
	if err != nil {
		return "", err
	}
	if !found {
		return "", fault.NotFound.Errorf("volume %q is not staged on this node", id)
	}
	return s.features.stager.Staged(ctx, id, have.Path, have.Type)
}

// mayPublish gathers what is published and lets mayRepeat and mayShare decide.
func (s *nodeService) mayPublish(ctx context.Context, want records.Publication) error {
	have, found, err := s.published.LiveAt(ctx, want.Target)
	if err != nil {
		return err
	}
	if found {
		return mayRepeat(have, want)
	}
	others, err := s.published.Live(ctx, want.Volume)
	if err != nil {
		return err
	}
	return mayShare(others, want)
}

// make writes the record and then mounts the volume, see package records.
func (s *nodeService) make(want records.Publication) error {
	_, repeated := s.published.At(want.Target)
	if !repeated {
		if err := s.published.Put(want); err != nil {
			return fault.KindOf(err).Errorf("publish volume %q: %w", want.Volume, err)
		}
	}
	err := s.features.reserve.Do(func() error { return s.mounter.Bind(want.Source, want.Target, want.Access()) })
	if err == nil {
		return nil
	}
	err = mountFault(want.Volume.String(), err)
	if repeated {
		return err
	}
	return errors.Join(err, s.published.Remove(want.Volume, want.Target))
}

// unpublish undoes a recorded publication. For a target without a record see unpublishUnrecorded.
func (s *nodeService) unpublish(ctx context.Context, p place) error {
	have, found := s.published.At(p.path)
	if !found {
		return s.unpublishUnrecorded(ctx, p)
	}
	if have.Volume.String() != p.volumeID {
		return fault.InUse.Errorf(
			"target_path %q: volume %q is published there, not %.128q; nothing was changed",
			p.path,
			have.Volume,
			p.volumeID,
		)
	}
	return s.undo(have.Volume, p.path)
}

func (s *nodeService) undo(id backend.ID, target string) error {
	if err := s.mounter.Unbind(target); err != nil {
		return mountFault(id.String(), err)
	}
	return s.published.Remove(id, target)
}

// unpublishUnrecorded is for repeated calls, and for targets whose record was dropped because the
// mount did not survive. It removes only a mount that certainly shows this volume, and an empty
// directory or file, which an interrupted publication leaves.
func (s *nodeService) unpublishUnrecorded(ctx context.Context, p place) error {
	id, err := backend.ParseID(p.volumeID)
	source := ""
	if err == nil {
		source, err = s.source(ctx, id)
	}
	if err == nil {
		bound, err := s.mounter.IsBound(source, p.path)
		if err != nil {
			return mountFault(p.volumeID, err)
		}
		if bound {
			return s.undo(id, p.path)
		}
	}
	removal := mount.RemoveEmpty(p.path)
	switch {
	case removal == nil && id == backend.ID{}:
		return nil
	case removal == nil:
		// There may be a damaged record, which was not found.
		return s.published.Remove(id, p.path)
	case err != nil:
		return err
	default:
		return fault.InUse.Errorf(
			"target_path %q is no publication of volume %.128q and stays as it is: %w",
			p.path,
			p.volumeID,
			removal,
		)
	}
}

// usage checks the mount and not the record, since it has to report what is at the path
// ("NodeGetVolumeStats Errors": NOT_FOUND for a wrong path).
func (s *nodeService) usage(ctx context.Context, p place) ([]backend.Usage, error) {
	id, err := backend.ParseID(p.volumeID)
	if err != nil {
		return nil, err
	}
	source, err := s.source(ctx, id)
	if fault.Unready.Is(err) {
		err = fault.NotFound.Errorf("volume_path %q: %w", p.path, err)
	}
	if err != nil {
		return nil, err
	}
	if source == p.path { // the staging path
		return s.features.usage.Usage(ctx, id, p.path)
	}
	bound, err := s.shows(id, source, p.path)
	if err != nil {
		return nil, mountFault(p.volumeID, err)
	}
	if !bound {
		return nil, fault.NotFound.Errorf("volume_path %q: volume %q is not published there", p.path, id)
	}
	return s.features.usage.Usage(ctx, id, p.path)
}

// shows reports whether the path shows the volume. If a record says so, only the mount table is
// checked. Comparing files would read the mounted filesystem, which may hang, and the kubelet calls
// NodeGetVolumeStats for every volume all the time.
func (s *nodeService) shows(id backend.ID, source, path string) (bool, error) {
	if have, found := s.published.At(path); found && have.Volume == id {
		return s.features.publicationChecker(s.mounter).IsBound(have.Source, path)
	}
	return s.mounter.IsBound(source, path)
}

// mountFault gives a failed mount the kind of error that the caller can act on.
func mountFault(volumeID string, err error) error {
	switch {
	case errors.Is(err, mount.ErrNoParent):
		// "The CO SHALL ensure that the parent directory of this path exists".
		return fault.Unready.Errorf("volume %.128q: %w; create it first", volumeID, err)
	case errors.Is(err, mount.ErrOccupied), errors.Is(err, mount.ErrBusy):
		return fault.InUse.Errorf("volume %.128q: %w", volumeID, err)
	case reserve.IsFull(err):
		return fault.Exhausted.Errorf("volume %.128q: %w; free some space or inodes there", volumeID, err)
	default:
		return fault.Internal.Errorf("volume %.128q: %w", volumeID, err)
	}
}
