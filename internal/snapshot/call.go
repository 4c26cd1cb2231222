package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// driver makes the requests about one kind of content.
type driver interface {
	methods() (create, find, remove string)
	create(ctx context.Context, a rules.CreateSnapshot, secrets map[string]string) (rules.Answer, error)
	find(ctx context.Context, a rules.FindSnapshot, secrets map[string]string) (rules.Answer, error)
	remove(ctx context.Context, a rules.DeleteSnapshot, secrets map[string]string) error
}

func (c *ContentController[C, L]) create(
	ctx context.Context, content client.Object, a rules.CreateSnapshot,
) (answer rules.Answer, failure *rules.Failure, err error) {
	method, _, _ := c.driver.methods()
	call := csirpc.Call{
		Method: method, Volume: a.Name, Secret: a.Secret,
		Send: func(ctx context.Context, secrets map[string]string) (err error) {
			answer, err = c.driver.create(ctx, a, secrets)
			return err
		},
	}
	if a.Record {
		call.Check = func(ctx context.Context) error { return c.checkSource(ctx, content) }
		call.Fence = func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			return c.record(ctx, content, a)
		}
	}
	if a.Mark != "" {
		call.Mark = func(ctx context.Context) error {
			_, err := c.annotate(ctx, content, a.Mark, new("yes"))
			return err
		}
	}
	failure, err = c.call(ctx, call)
	return answer, failure, err
}

func (c *ContentController[C, L]) find(
	ctx context.Context, a rules.FindSnapshot,
) (answer rules.Answer, failure *rules.Failure, err error) {
	_, method, _ := c.driver.methods()
	failure, err = c.call(ctx, csirpc.Call{
		Method: method, Volume: a.Handle, Secret: a.Secret,
		Send: func(ctx context.Context, secrets map[string]string) (err error) {
			answer, err = c.driver.find(ctx, a, secrets)
			return err
		},
	})
	return answer, failure, err
}

// remove calls the driver without its secret if that does not exist, as for volumes (D-15): the
// secret is often in the namespace of the VolumeSnapshot and deleted with it.
func (c *ContentController[C, L]) remove(ctx context.Context, a rules.DeleteSnapshot) (*rules.Failure, error) {
	_, _, method := c.driver.methods()
	return c.call(ctx, csirpc.Call{
		Method: method, Volume: a.Handle, Secret: a.Secret, Absent: csirpc.CallWithoutSecret,
		Send: func(ctx context.Context, secrets map[string]string) error { return c.driver.remove(ctx, a, secrets) },
	})
}

// call makes one call to the driver. An error is one of writing down that the call is made, or of what
// must come before: then nothing is known that the status should say.
func (c *SidecarConfig) call(ctx context.Context, call csirpc.Call) (*rules.Failure, error) {
	call.Timeout = c.Timeout
	failure := c.Caller.Do(ctx, call)
	switch {
	case failure == nil:
		return nil, nil //nolint:nilnil // the call succeeded
	case failure.Step == csirpc.StepMark, failure.Step == csirpc.StepFence, failure.Step == csirpc.StepCheck:
		return nil, failure.Cause
	case failure.Step == csirpc.StepSecret:
		err := failure.Cause
		if ctx.Err() != nil {
			err = errors.Join(err, ctx.Err())
		}
		failure.Message = fmt.Sprintf("the secret %s cannot be read: %v", call.Secret, err)
	}
	return failure.Answer(), nil
}

// snapshotDriver makes the requests about single snapshots.
type snapshotDriver struct{ csi.ControllerClient }

func (snapshotDriver) methods() (create, find, remove string) {
	return "CreateSnapshot", "ListSnapshots", "DeleteSnapshot"
}

func (d snapshotDriver) create(
	ctx context.Context, a rules.CreateSnapshot, secrets map[string]string,
) (answer rules.Answer, err error) {
	response, err := d.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{
		SourceVolumeId: a.Volumes[0], Name: a.Name, Parameters: a.Parameters, Secrets: secrets,
	})
	return answerOf(response.GetSnapshot(), err)
}

func (d snapshotDriver) find(
	ctx context.Context, a rules.FindSnapshot, secrets map[string]string,
) (answer rules.Answer, err error) {
	response, err := d.ListSnapshots(ctx, &csi.ListSnapshotsRequest{SnapshotId: a.Handle, Secrets: secrets})
	for _, entry := range response.GetEntries() {
		if entry.GetSnapshot().GetSnapshotId() == a.Handle {
			return answerOf(entry.GetSnapshot(), err)
		}
	}
	return answer, err
}

func (d snapshotDriver) remove(ctx context.Context, a rules.DeleteSnapshot, secrets map[string]string) error {
	_, err := d.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: a.Handle, Secrets: secrets})
	return err
}

func answerOf(s *csi.Snapshot, err error) (a rules.Answer, _ error) {
	if err != nil {
		return a, err
	}
	a = rules.Answer{Handle: s.GetSnapshotId(), Ready: s.GetReadyToUse(), Size: s.GetSizeBytes()}
	setCreated(&a, s)
	return a, nil
}

// setCreated sets the time that the driver says, if it says one.
func setCreated(a *rules.Answer, of interface {
	GetCreationTime() *timestamppb.Timestamp
},
) {
	if at := of.GetCreationTime(); at != nil {
		a.Created = at.AsTime()
	}
}

// groupDriver makes the requests about groups.
type groupDriver struct{ csi.GroupControllerClient }

func (groupDriver) methods() (create, find, remove string) {
	return "CreateVolumeGroupSnapshot", "GetVolumeGroupSnapshot", "DeleteVolumeGroupSnapshot"
}

func (d groupDriver) create(
	ctx context.Context, a rules.CreateSnapshot, secrets map[string]string,
) (answer rules.Answer, err error) {
	response, err := d.CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{
		Name: a.Name, SourceVolumeIds: a.Volumes, Parameters: a.Parameters, Secrets: secrets,
	})
	return groupAnswer(response.GetGroupSnapshot(), err)
}

func (d groupDriver) find(
	ctx context.Context, a rules.FindSnapshot, secrets map[string]string,
) (answer rules.Answer, err error) {
	response, err := d.GetVolumeGroupSnapshot(ctx, &csi.GetVolumeGroupSnapshotRequest{
		GroupSnapshotId: a.Handle, SnapshotIds: a.Snapshots, Secrets: secrets,
	})
	return groupAnswer(response.GetGroupSnapshot(), err)
}

func (d groupDriver) remove(ctx context.Context, a rules.DeleteSnapshot, secrets map[string]string) error {
	_, err := d.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{
		GroupSnapshotId: a.Handle, SnapshotIds: a.Snapshots, Secrets: secrets,
	})
	return err
}

func groupAnswer(group *csi.VolumeGroupSnapshot, err error) (a rules.Answer, _ error) {
	if err != nil {
		return a, err
	}
	a = rules.Answer{Handle: group.GetGroupSnapshotId(), Ready: group.GetReadyToUse()}
	setCreated(&a, group)
	for _, one := range group.GetSnapshots() {
		info := groupv1.VolumeSnapshotInfo{
			VolumeHandle: one.GetSourceVolumeId(), SnapshotHandle: one.GetSnapshotId(),
			ReadyToUse: new(one.GetReadyToUse()),
		}
		if one.GetSizeBytes() > 0 {
			info.RestoreSize = new(one.GetSizeBytes())
		}
		if at := one.GetCreationTime(); at != nil {
			info.CreationTime = new(at.AsTime().UnixNano())
		}
		a.Snapshots = append(a.Snapshots, info)
	}
	return a, nil
}
