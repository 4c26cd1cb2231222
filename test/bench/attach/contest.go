package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/stage"
)

const (
	namespace = "default"
	writers   = 16 // requests in flight while objects are created
)

// placed is a volume on a node.
type placed struct{ node, handle string }

// contest is the API server, the driver, the nodes and the volumes.
type contest struct {
	options
	bin, dir string
	cluster  *cluster.Cluster
	api      client.Client
	driver   *driver
	observer *observer
	log      *audit.Log
	nodes    []string
	made     int              // volumes so far
	running  []*stage.Program // of the combination
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

// open connects, creates the nodes and the accounts of the programs, and starts to observe.
func (c *contest) open(ctx context.Context) (err error) {
	scheme := k8sruntime.NewScheme()
	err = errors.Join(corev1.AddToScheme(scheme), storagev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	admin := rest.CopyConfig(c.cluster.RESTConfig())
	admin.QPS = -1
	if c.api, err = client.New(admin, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	c.log = &audit.Log{Path: c.cluster.AuditLog(), Touch: func(ctx context.Context, mark string) error {
		return client.IgnoreNotFound(c.api.Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{}))
	}}
	if err := c.fill(ctx); err != nil {
		return err
	}
	if err := c.accounts(ctx); err != nil {
		return err
	}
	seen, err := cache.New(admin, cache.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	c.observer = newObserver(c.api)
	if err := c.observer.follow(ctx, seen); err != nil {
		return err
	}
	go func() { _ = seen.Start(ctx) }() // ends with ctx
	seen.WaitForCacheSync(ctx)
	c.observer.report(ctx, c.nodes)
	return nil
}

func (c *contest) fill(ctx context.Context) error {
	objects := []client.Object{
		&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)},
		},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}},
	}
	for i := range c.count.nodes {
		name := fmt.Sprintf("node-%02d", i)
		c.nodes = append(c.nodes, name)
		objects = append(objects,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{names.AnnManagedAttach: "true"},
			}},
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name}},
			}})
	}
	if err := c.create(ctx, objects); err != nil {
		return err
	}
	for _, name := range c.nodes {
		node := &corev1.Node{}
		if err := c.api.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := c.api.Status().Update(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

func (c *contest) create(ctx context.Context, objects []client.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, object := range objects {
		group.Go(func() error { return client.IgnoreAlreadyExists(c.api.Create(ctx, object)) })
	}
	return group.Wait()
}

// The accounts of the two programs, so that the audit log tells their requests apart.
const (
	accountController = "controllers"
	accountAttacher   = "csi-attacher"
)

// accounts creates them as administrators, with a kubeconfig each.
func (c *contest) accounts(ctx context.Context) error {
	setup, err := bootstrap.New(c.cluster.RESTConfig())
	if err == nil {
		err = setup.ApplyRoles(ctx)
	}
	if err != nil {
		return err
	}
	for _, account := range []string{accountController, accountAttacher} {
		err := c.api.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "bench-" + account},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: process.SystemNamespace, Name: account}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		})
		if err != nil {
			return err
		}
		config, err := setup.ConfigFor(ctx, account)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(c.kubeconfig(account), config); err != nil {
			return err
		}
	}
	return nil
}

func (c *contest) kubeconfig(account string) string {
	return filepath.Join(c.dir, account+".kubeconfig")
}

func writeKubeconfig(path string, config *rest.Config) error {
	k := clientcmdapi.NewConfig()
	authority := config.CAData
	if len(authority) == 0 && config.CAFile != "" {
		var err error
		if authority, err = os.ReadFile(config.CAFile); err != nil {
			return err
		}
	}
	k.Clusters["bench"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: authority}
	k.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	k.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	k.CurrentContext = "bench"
	return clientcmd.WriteToFile(*k, path)
}

// volumes creates bound pairs of claims and volumes, and places each on a node in turn.
func (c *contest) volumes(ctx context.Context, prefix string, n int) (all []placed, err error) {
	var claims []*corev1.PersistentVolumeClaim
	var objects []client.Object
	for range n {
		c.made++
		name := fmt.Sprintf("%s%05d", prefix, c.made)
		all = append(all, placed{c.nodes[c.made%len(c.nodes)], name})
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				VolumeName: name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(""),
				Resources: corev1.VolumeResourceRequirements{Requests: gibibyte()},
			},
		}
		claims, objects = append(claims, claim), append(objects, claim)
	}
	if err := c.create(ctx, objects); err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, claim := range claims {
		group.Go(func() error { return c.bind(groupCtx, claim) })
	}
	return all, group.Wait()
}

func gibibyte() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// bind creates the volume of a claim and says that both are bound.
func (c *contest) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: gibibyte(),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: claim.Name,
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

// start creates the pods of the volumes, each bound to its node.
func (c *contest) start(ctx context.Context, all []placed) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, p := range all {
		group.Go(func() error {
			c.observer.want(p.node, p.handle)
			return c.api.Create(ctx, podOf(p))
		})
	}
	return group.Wait()
}

func podOf(p placed) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.handle + "-on-" + p.node},
		Spec: corev1.PodSpec{
			NodeName: p.node, Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(false),
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.handle},
			}}},
		},
	}
}

// end deletes the pods.
func (c *contest) end(ctx context.Context, all []placed) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, p := range all {
		group.Go(func() error {
			err := c.api.Delete(ctx, podOf(p), client.GracePeriodSeconds(0))
			c.observer.release(p.node, p.handle)
			return err
		})
	}
	return group.Wait()
}

// percentile is that of durations, which it sorts.
func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)*percent/100, len(all)-1)]
}
