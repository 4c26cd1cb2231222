package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
	"github.com/purser-csi/purser/test/bench/kubeconfig"
	"github.com/purser-csi/purser/test/e2e/audit"
)

const (
	namespace = "default"
	class     = "bench" // of claims and of snapshots
	writers   = 16      // requests in flight while objects are created
)

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
	bin, dir string
	cluster  *cluster.Cluster
	api      client.Client // reads from a cache
	driver   *driver
	log      *audit.Log
}

func newContest(ctx context.Context, bin, dir string, o options) (c *contest, err error) {
	c = &contest{options: o, bin: bin, dir: dir}
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), bin)
	if err != nil {
		return nil, err
	}
	if c.driver, err = serve(ctx, c.socket()); err != nil {
		return nil, err
	}
	config := cluster.Config{Dir: filepath.Join(dir, "cluster"), Binaries: binaries, Audit: true}
	if c.cluster, err = cluster.Start(ctx, config); err != nil {
		return nil, err
	}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *contest) socket() string { return filepath.Join(c.dir, "csi.sock") }

func (c *contest) close() error {
	c.driver.server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.cluster.Stop(ctx)
}

// open installs the kinds of snapshots, connects, and creates accounts, classes and claims.
func (c *contest) open(ctx context.Context) (err error) {
	if err := c.cluster.Install(ctx, cluster.FindResources(c.bin)...); err != nil {
		return err
	}
	scheme := kube.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		return err
	}
	admin := rest.CopyConfig(c.cluster.RESTConfig())
	admin.QPS = -1
	seen, err := cache.New(admin, cache.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	go func() { _ = seen.Start(ctx) }() // ends with ctx
	c.api, err = client.New(admin, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: seen}})
	if err != nil {
		return err
	}
	live, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	c.log = &audit.Log{Path: c.cluster.AuditLog(), Touch: func(ctx context.Context, mark string) error {
		return client.IgnoreNotFound(live.Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{}))
	}}
	return errors.Join(c.accounts(ctx), c.fill(ctx))
}

// accounts applies the roles that Purser ships and writes a kubeconfig for each account.
func (c *contest) accounts(ctx context.Context) error {
	setup, err := bootstrap.New(c.cluster.RESTConfig())
	if err == nil {
		err = setup.ApplyRoles(ctx)
	}
	if err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{ // kube-controller-manager reads more than its controllers need
		ObjectMeta: metav1.ObjectMeta{Name: "bench-" + accountBinder},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: process.SystemNamespace, Name: accountBinder}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	if err := c.api.Create(ctx, binding); err != nil {
		return err
	}
	for _, account := range []string{accountController, accountSidecar, accountProvisioner, accountBinder} {
		config, err := setup.ConfigFor(ctx, account)
		if err == nil {
			err = kubeconfig.Write(c.kubeconfig(account), config)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *contest) kubeconfig(account string) string {
	return filepath.Join(c.dir, account+".kubeconfig")
}

// fill creates the classes and the bound claims that snapshots are taken of.
func (c *contest) fill(ctx context.Context) error {
	meta := metav1.ObjectMeta{Name: class}
	err := errors.Join(
		c.api.Create(ctx, &storagev1.StorageClass{ObjectMeta: meta, Provisioner: driverName}),
		c.api.Create(ctx, &snapshotv1.VolumeSnapshotClass{
			ObjectMeta: meta, Driver: driverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		}))
	if err != nil {
		return err
	}
	return c.each(ctx, func(ctx context.Context, i int) error { return c.pair(ctx, name("source", i)) })
}

func name(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }

// each runs a function for each of the snapshots, some at once.
func (c *contest) each(ctx context.Context, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range c.snapshots {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: gibibyte()},
		},
	}
}

func gibibyte() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// pair creates a claim and its volume, bound to each other.
func (c *contest) pair(ctx context.Context, name string) error {
	claim := newClaim(name)
	claim.Spec.VolumeName = name
	if err := c.api.Create(ctx, claim); err != nil {
		return err
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: gibibyte(), StorageClassName: class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: name,
			}},
		},
	}
	if err := c.api.Create(ctx, pv); err != nil {
		return err
	}
	pv.Status.Phase = corev1.VolumeBound
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, gibibyte()
	claim.Status.AccessModes = claim.Spec.AccessModes
	return errors.Join(c.api.Status().Update(ctx, pv), c.api.Status().Update(ctx, claim))
}
