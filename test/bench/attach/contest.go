package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/test/bench/audited"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// placed is a volume on a node.
type placed struct{ node, handle string }

// contest is the API server, the driver, the nodes and the volumes.
type contest struct {
	options
	*audited.Server
	driver   *driver
	observer *observer
	nodes    []string
	made     int              // volumes so far
	running  []*stage.Program // of the combination
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

// open creates the nodes and the accounts of the programs, and starts to observe.
func (c *contest) open(ctx context.Context) (err error) {
	if err := c.fill(ctx); err != nil {
		return err
	}
	if err := c.Accounts(ctx, accountController, accountAttacher); err != nil {
		return err
	}
	seen, err := cache.New(c.Admin, cache.Options{Scheme: c.Scheme})
	if err != nil {
		return err
	}
	c.observer = newObserver(c.API)
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
	if err := c.Create(ctx, objects); err != nil {
		return err
	}
	for _, name := range c.nodes {
		node := &corev1.Node{}
		if err := c.API.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := c.API.Status().Update(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// The accounts of the two programs, so that the audit log tells their requests apart.
const (
	accountController = "controllers"
	accountAttacher   = "csi-attacher"
)

// volumes creates bound pairs of claims and volumes, and places each on a node in turn.
func (c *contest) volumes(ctx context.Context, prefix string, n int) (all []placed, err error) {
	var handles []string
	for range n {
		c.made++
		handles = append(handles, fmt.Sprintf("%s%05d", prefix, c.made))
		all = append(all, placed{c.nodes[c.made%len(c.nodes)], handles[len(handles)-1]})
	}
	return all, c.Pairs(ctx, driverName, "", handles)
}

// start creates the pods of the volumes, each bound to its node.
func (c *contest) start(ctx context.Context, all []placed) error {
	return audited.Each(ctx, all, func(ctx context.Context, p placed) error {
		c.observer.want(p.node, p.handle)
		return c.API.Create(ctx, podOf(p))
	})
}

func podOf(p placed) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: audited.Namespace, Name: p.handle + "-on-" + p.node},
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
	return audited.Each(ctx, all, func(ctx context.Context, p placed) error {
		err := c.API.Delete(ctx, podOf(p), client.GracePeriodSeconds(0))
		c.observer.release(p.node, p.handle)
		return err
	})
}
