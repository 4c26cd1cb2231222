package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/audited"
)

const class = "bench" // of claims and of snapshots

// The accounts of the programs, so that the audit log tells their requests apart.
const (
	accountController  = "snapshot-controller"
	accountSidecar     = "csi-snapshotter"
	accountProvisioner = "csi-provisioner"
	accountBinder      = "controllers"
)

// contest is the API server, the driver and the bound claims.
type contest struct {
	options
	*audited.Server
	seen   client.Reader // a cache
	driver *driver
}

func newContest(ctx context.Context, bin, dir string, o options) (c *contest, err error) {
	c = &contest{options: o}
	if c.driver, err = serve(ctx, filepath.Join(dir, socketName)); err != nil {
		return nil, err
	}
	if c.Server, err = audited.Start(ctx, bin, dir); err != nil {
		c.driver.server.Stop()
		return nil, err
	}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

const socketName = "csi.sock"

func (c *contest) close() error {
	c.driver.server.Stop()
	return c.Close()
}

// open installs the kinds of snapshots, and creates accounts, classes and the bound claims that
// snapshots are taken of. kube-controller-manager reads more than its controllers need, so the binder
// is an administrator.
func (c *contest) open(ctx context.Context) error {
	if err := c.Install(ctx); err != nil {
		return err
	}
	err := errors.Join(c.Roles(ctx, accountController, accountSidecar, accountProvisioner), c.Accounts(ctx, accountBinder))
	if err != nil {
		return err
	}
	seen, err := cache.New(c.Admin, cache.Options{Scheme: c.Scheme})
	if err != nil {
		return err
	}
	go func() { _ = seen.Start(ctx) }() // ends with ctx
	c.seen = seen
	meta := metav1.ObjectMeta{Name: class}
	err = c.Create(ctx, []client.Object{
		&storagev1.StorageClass{ObjectMeta: meta, Provisioner: driverName},
		&snapshotv1.VolumeSnapshotClass{
			ObjectMeta: meta, Driver: driverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		},
	})
	if err != nil {
		return err
	}
	var handles []string
	for i := range c.snapshots {
		handles = append(handles, name("source", i))
	}
	return c.Pairs(ctx, driverName, class, handles)
}

func name(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }

func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: audited.Namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: audited.Gibibyte()},
		},
	}
}
