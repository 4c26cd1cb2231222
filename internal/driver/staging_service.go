package driver

import (
	"context"
	"strings"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"

	"github.com/purser-csi/purser/internal/driver/records"
	"github.com/purser-csi/purser/internal/mount"
)

// stage writes the record first, see package records. The next call for the volume removes the
// remains of a failed stage.
func (s *nodeService) stage(ctx context.Context, volumeID string, r backend.Staging) error {
	id, err := backend.ParseID(volumeID)
	if err != nil {
		return err
	}
	r.Volume = id
	if err := s.rules.CheckCapability(r.Capability); err != nil {
		return exceeds(id, err)
	}
	want := records.Staging{
		Volume: id,
		Path:   r.Path,
		Type:   r.Capability.Type,
		Mode:   r.Capability.Mode,
		FSType: r.Capability.FSType,
	}
	if err := s.mayStage(ctx, want); err != nil {
		return err
	}
	if err := s.staged.Put(want); err != nil {
		return fault.KindOf(err).Errorf("stage volume %q: %w", id, err)
	}
	return s.features.stager.Stage(ctx, r)
}

// mayStage compares the request with the staged volume. A repeated request is passed to the backend
// again, since the volume may be only partly staged.
func (s *nodeService) mayStage(ctx context.Context, want records.Staging) error {
	have, found, err := s.staged.Of(want.Volume)
	if err != nil || !found {
		return err
	}
	if have.Path == want.Path && have.SameArguments(want) {
		return nil
	}
	live, err := s.liveStaging(ctx, want.Volume)
	switch {
	case err != nil || !live:
		return err
	case have.Path != want.Path:
		return fault.InUse.Errorf("volume %q is staged at %q already; unstage it there first", want.Volume, have.Path)
	default:
		return fault.Incompatible.Errorf("volume %q is staged at %q as %s, not as %s; unstage it first",
			want.Volume, want.Path, have.Arguments(), want.Arguments())
	}
}

// liveStaging reports whether the volume is staged according to its record. If the backend has not
// staged it, the record is removed.
func (s *nodeService) liveStaging(ctx context.Context, id backend.ID) (live bool, err error) {
	have, found, err := s.staged.Of(id)
	if err != nil || !found {
		return false, err
	}
	_, err = s.features.stager.Staged(ctx, id, have.Path, have.Type)
	if err == nil {
		return true, nil
	}
	if !fault.Unready.Is(err) && !fault.NotFound.Is(err) {
		return false, err
	}
	if err := s.features.stager.Unstage(ctx, id, have.Path); err != nil {
		return false, err
	}
	logr.FromContextOrDiscard(ctx).
		Info("Cleared away a staging that was not complete", "volume", id.String(), "path", have.Path)
	return false, s.staged.Remove(id)
}

// unstage treats an id that no volume can have like a volume that is not staged.
func (s *nodeService) unstage(ctx context.Context, p place) error {
	id, err := backend.ParseID(p.volumeID)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("Nothing to unstage: this driver makes no such ids")
		return nil
	}
	if err := s.notPublished(ctx, id); err != nil {
		return err
	}
	// A damaged record does not block the unstage, which removes the record.
	if have, found, err := s.staged.Of(id); err == nil && found && have.Path != p.path {
		live, err := s.liveStaging(ctx, id)
		if err != nil {
			return err
		}
		if live {
			logr.FromContextOrDiscard(ctx).Info("Nothing to unstage: the volume is staged elsewhere", "path", have.Path)
			return nil
		}
	}
	if err := s.features.stager.Unstage(ctx, id, p.path); err != nil {
		return err
	}
	return s.staged.Remove(id)
}

func (s *nodeService) notPublished(ctx context.Context, id backend.ID) error {
	live, err := s.published.Live(ctx, id)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		return fault.InUse.Errorf("volume %q is published on this node at %s; unpublish it first", id, targets(live))
	}
	return nil
}

func targets(records []records.Publication) string {
	paths := make([]string, 0, len(records))
	for _, record := range records {
		paths = append(paths, record.Target)
	}
	return strings.Join(paths, ", ")
}

// notInUse implements nodeUse.
func (s *nodeService) notInUse(ctx context.Context, id backend.ID) error {
	if err := s.notPublished(ctx, id); err != nil || s.features.stager == nil {
		return err
	}
	live, err := s.liveStaging(ctx, id)
	if err != nil {
		return err
	}
	if live {
		have, _, _ := s.staged.Of(id)
		return fault.InUse.Errorf("volume %q is staged on this node at %s; unstage it first", id, have.Path)
	}
	return nil
}

// stagedSource returns the staged device or directory, if the volume was staged with the same
// capability. A record can be lost: then it is written again from the backend's answer, since the
// volume is in use.
func (s *nodeService) stagedSource(ctx context.Context, id backend.ID, r publishing) (string, error) {
	have, found, err := s.staged.Of(id)
	if err != nil {
		return "", err
	}
	switch {
	case found && have.Path != r.staging:
		return "", fault.Unready.Errorf(
			"staging_target_path %q: volume %q is staged at %q; use that, or stage it first",
			r.staging,
			id,
			have.Path,
		)
	case found && (have.Type != r.capability.Type ||
		(r.capability.FSType != "" && have.FSType != "" && have.FSType != r.capability.FSType)):
		return "", fault.Unsupported.Errorf(
			"volume %q is staged as %s and cannot be published as %s; stage it again",
			id,
			have.Arguments(),
			r.capability,
		)
	}
	source, err := s.features.stager.Staged(ctx, id, r.staging, r.capability.Type)
	if err != nil || found {
		return source, err
	}
	return source, s.staged.Put(records.Staging{
		Volume: id, Path: r.staging, Type: r.capability.Type, Mode: r.capability.Mode, FSType: r.capability.FSType,
	})
}

// expand finds the staging path for a target path, since the backend does not know targets.
func (s *nodeService) expand(ctx context.Context, g nodeGrowth) (bytes int64, err error) {
	id, err := backend.ParseID(g.volumeID)
	if err != nil {
		return 0, err
	}
	growing := backend.NodeExpansion{Volume: id, Path: g.path, StagingPath: g.staging, Size: g.size}
	staged, isStaged, err := s.staged.Of(id)
	if err != nil {
		return 0, err
	}
	published, isPublished := s.published.At(g.path)
	switch {
	case isPublished && published.Volume == id:
		growing.Access = published.Type
	case isStaged && staged.Path == g.path:
		growing.Access = staged.Type
	default:
		return 0, fault.NotFound.Errorf("volume_path %q: volume %q is neither published nor staged there", g.path, id)
	}
	if growing.StagingPath == "" && isStaged {
		growing.StagingPath = staged.Path
	}
	return s.features.nodeExpander.NodeExpand(ctx, growing)
}

// publicationChecker returns the check whether a recorded publication still exists.
func (f features) publicationChecker(m mount.Mounter) records.MountChecker {
	if f.stager == nil {
		return m
	}
	return anyMount{m}
}

// anyMount accepts every mount at the target as the volume's. If the staging path was unmounted
// without the driver, it shows another directory than the targets, which keep the volume in use all
// the same.
type anyMount struct{ mount.Mounter }

func (a anyMount) IsBound(source, target string) (bool, error) {
	mounted, err := mount.IsPoint(target)
	if err != nil || mounted {
		return mounted, err
	}
	return a.Mounter.IsBound(source, target)
}
