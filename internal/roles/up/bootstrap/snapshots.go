package bootstrap

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/names"
)

// TakesSnapshots reports whether the driver takes snapshots, which takes csi-snapshotter.
func TakesSnapshots(driver csirpc.Description) bool {
	return driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT]
}

// CreateSnapshotClass creates the default VolumeSnapshotClass for the driver, unless there is a
// class of this name for it already.
func (f Setup) CreateSnapshotClass(ctx context.Context, driver csirpc.Description) error {
	class := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        DefaultClass,
			Annotations: map[string]string{names.AnnDefaultSnapshotClass: "true"},
		},
		Driver:         driver.Name,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}
	var old snapshotv1.VolumeSnapshotClass
	err := f.Client.Get(ctx, client.ObjectKeyFromObject(class), &old)
	if err == nil && old.Driver != driver.Name {
		err = f.Client.Delete(ctx, &old)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("VolumeSnapshotClass %s of another driver: %w", DefaultClass, err)
	}
	return f.create(ctx, class)
}
