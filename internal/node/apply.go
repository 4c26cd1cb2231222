package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/mount"
	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// Apply implements reconcile.Task.
func (a *Agent) Apply(ctx context.Context, s mounting.Snapshot, action mounting.Action) (mounting.Verdict, error) {
	switch act := action.(type) {
	case mounting.NoteInUse:
		a.inUse.want(s.Key, act.Wanted)
		return nil, nil
	case mounting.Stage:
		failure := a.stage(ctx, s, act.Use)
		a.noteExhausted(s.Key, failure)
		return a.counted(s, act.ID, mounting.AfterStage(s, act.Use, failure)), nil
	case mounting.Publish:
		failure := a.publish(ctx, s, act)
		a.noteExhausted(s.Key, failure)
		return a.counted(s, act.ID, mounting.AfterPublish(act.Use, act.Before, failure)), nil
	case mounting.Expand:
		return a.counted(s, act.ID, a.expand(ctx, s, act.Use)), nil
	case mounting.Unpublish:
		return a.counted(s, act.ID, mounting.AfterUnpublish(act.Publication, a.unpublish(ctx, s, act.Publication))), nil
	case mounting.Unstage:
		return a.counted(s, act.DeviceID, mounting.AfterUnstage(s, a.unstage(ctx, s, act.Device))), nil
	case mounting.CleanDevice:
		return nil, a.cleanDevice(s.Key, act.ID.Device())
	case mounting.CleanPublication:
		return nil, a.cleanPublication(s.Key, act.ID)
	case mounting.Tell:
		a.tell(act)
		return nil, nil
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// noteExhausted has the driver asked for the limit of the node after ResourceExhausted.
func (a *Agent) noteExhausted(key mounting.Key, failure *mounting.Failure) {
	if failure != nil && failure.Answered(codes.ResourceExhausted) {
		a.csiNode.exhausted(key.Driver)
	}
}

// counted notes whether an attempt failed, for the order of the next ones.
func (a *Agent) counted(s mounting.Snapshot, of any, v mounting.Verdict) mounting.Verdict {
	a.records.count(s.Key, of, v != nil)
	return v
}

// change replaces the record of a volume. Volumes that come and go are reported.
func (a *Agent) change(key mounting.Key, edit func(mounting.Record) mounting.Record) {
	a.records.change(key, edit)
	a.inUse.changed()
}

// call makes one call to the driver.
func (a *Agent) call(
	ctx context.Context, s mounting.Snapshot, method string, secret types.NamespacedName,
	send func(context.Context, csi.NodeClient, map[string]string) error,
) *mounting.Failure {
	driver, err := a.drivers.node(s.Key.Driver)
	if err != nil {
		return unsent(err)
	}
	failure := a.caller.Do(ctx, csirpc.Call{
		Method: method, Volume: s.Key.String(), Handle: s.Key.VolumeID(), Timeout: a.Timeout, Secret: secret,
		Send: func(ctx context.Context, secrets map[string]string) error { return send(ctx, driver, secrets) },
	})
	if failure != nil && failure.Step == csirpc.StepSecret {
		failure.Message = fmt.Sprintf("fetching secret %s failed: %v", secret, failure.Cause)
	}
	return failure.Answer()
}

// unsent is a failure before the driver was called.
func unsent(err error) *mounting.Failure {
	return &mounting.Failure{NoAnswer: true, Message: err.Error()}
}

// stage is 5.5 and, for raw block volumes, 5.7. The metadata is written before the call, so that a
// crash leaves nothing that cannot be found again.
func (a *Agent) stage(ctx context.Context, s mounting.Snapshot, use mounting.Use) *mounting.Failure {
	id := use.ID.Device()
	path := a.layout.Stage(use.Key, id)
	var err error
	switch { // before the folder: the staging path of a raw block volume is not below its metadata
	case id.Mode == mounting.Block:
		err = writeMetadata(a.layout.BlockData(id.Spec), mounting.BlockMetadata(use.Key, id.Spec, a.Node))
	case s.Driver.Stages:
		err = writeMetadata(a.layout.StageDir(use.Key), mounting.StageMetadata(use.Key))
	}
	if err == nil && (id.Mode == mounting.Filesystem || s.Driver.Stages) {
		err = makeDirs(path)
	}
	if err != nil {
		return unsent(err)
	}
	device, _ := s.Record.Device(id)
	device.DeviceID, device.State = id, mounting.Uncertain
	set := func() {
		a.change(s.Key, func(r mounting.Record) mounting.Record { return r.WithDevice(device) })
	}
	set()
	if s.Driver.Stages {
		request, err := s.StageRequest(a.layout, use)
		if err != nil {
			return unsent(err)
		}
		failure := a.call(ctx, s, "NodeStageVolume", use.StageSecret(),
			func(ctx context.Context, driver csi.NodeClient, secrets map[string]string) error {
				request.Secrets = secrets
				_, err := driver.NodeStageVolume(ctx, request)
				return err
			})
		if failure != nil {
			return failure
		}
	}
	device.State = mounting.Certain
	set()
	return nil
}

// publish is 5.6 and, for raw block volumes, 5.7.
func (a *Agent) publish(ctx context.Context, s mounting.Snapshot, act mounting.Publish) *mounting.Failure {
	use := act.Use
	request, err := s.PublishRequest(a.layout, use)
	if err != nil {
		return unsent(err)
	}
	ownership, owns, err := s.OwnershipOf(use)
	if err != nil {
		return unsent(err)
	}
	if err := a.preparePublication(use); err != nil {
		return unsent(err)
	}
	publication := act.Before
	publication.ID, publication.Found = use.ID, false
	set := func() {
		a.change(s.Key, func(r mounting.Record) mounting.Record { return r.WithPublication(publication) })
	}
	if publication.State != mounting.Certain {
		set()
	}
	if failure := a.sendPublish(ctx, s, use, request); failure != nil {
		return failure
	}
	if use.ID.Mode == mounting.Block {
		if err := a.mapBlock(ctx, use.ID); err != nil {
			return unsent(err)
		}
	}
	// The files of a republished volume are in use: their owner is set once.
	if owns && (!publication.Published || publication.State != mounting.Certain) {
		if err := a.setOwnership(ctx, use, ownership); err != nil {
			return unsent(fmt.Errorf("applyFSGroup failed for vol %s: %w", use.Key.VolumeID(), err))
		}
	}
	publication.State, publication.Published, publication.At = mounting.Certain, true, a.Clock.Now()
	set()
	return nil
}

func (a *Agent) sendPublish(
	ctx context.Context, s mounting.Snapshot, use mounting.Use, request *csi.NodePublishVolumeRequest,
) *mounting.Failure {
	tokens, err := a.tokens(ctx, s.Info, use)
	if err != nil {
		return unsent(err)
	}
	if !tokens.inSecrets {
		tokens.addTo(&request.VolumeContext)
	}
	return a.call(ctx, s, "NodePublishVolume", use.PublishSecret(),
		func(ctx context.Context, driver csi.NodeClient, secrets map[string]string) error {
			if request.Secrets = secrets; tokens.inSecrets {
				tokens.addTo(&request.Secrets)
			}
			_, err := driver.NodePublishVolume(ctx, request)
			return err
		})
}

// preparePublication makes the folder and the metadata of a target.
func (a *Agent) preparePublication(use mounting.Use) error {
	if use.ID.Mode == mounting.Block {
		return makeDirs(a.layout.BlockPublish(use.ID.Spec))
	}
	dir := a.layout.VolumeDir(use.ID.Pod, use.ID.Spec)
	return errors.Join(makeDirs(dir), writeMetadata(dir, mounting.PublishMetadata(use.Key, use.ID, a.Node)))
}

// unpublish is 5.8. Nothing is removed before the driver has answered with success.
func (a *Agent) unpublish(ctx context.Context, s mounting.Snapshot, p mounting.Publication) *mounting.Failure {
	if p.Mode == mounting.Block {
		if err := a.unmapBlock(p.ID); err != nil {
			return unsent(err)
		}
	} else if err := a.unmountSubPaths(p.ID); err != nil {
		return unsent(err)
	}
	target := a.layout.Target(p.ID)
	failure := a.call(ctx, s, "NodeUnpublishVolume", types.NamespacedName{},
		func(ctx context.Context, driver csi.NodeClient, _ map[string]string) error {
			_, err := driver.NodeUnpublishVolume(
				ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: s.Key.VolumeID(), TargetPath: target},
			)
			return err
		})
	if failure != nil {
		return failure
	}
	if err := a.cleanPublication(s.Key, p.ID); err != nil {
		return unsent(err)
	}
	a.enqueueUID(p.Pod)
	return nil
}

// unstage is 5.8. It is refused while another mount of the volume is left.
func (a *Agent) unstage(ctx context.Context, s mounting.Snapshot, d mounting.Device) *mounting.Failure {
	path := a.layout.Stage(s.Key, d.DeviceID)
	if d.Mode == mounting.Filesystem {
		if others, err := mount.Refs(path, a.layout.Pods()); err != nil || len(others) > 0 {
			return unsent(errors.Join(err, referenced(path, others)))
		}
	}
	if s.Driver.Stages {
		failure := a.call(ctx, s, "NodeUnstageVolume", types.NamespacedName{},
			func(ctx context.Context, driver csi.NodeClient, _ map[string]string) error {
				_, err := driver.NodeUnstageVolume(
					ctx, &csi.NodeUnstageVolumeRequest{VolumeId: s.Key.VolumeID(), StagingTargetPath: path},
				)
				return err
			})
		if failure != nil {
			return failure
		}
	}
	if err := a.cleanDevice(s.Key, d.DeviceID); err != nil {
		return unsent(err)
	}
	return nil
}

func referenced(path string, others []string) error {
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("the device mount path %q is still mounted by other references %v", path, others)
}
