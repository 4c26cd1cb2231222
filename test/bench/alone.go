package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/kube"
)

// alone is a provisioner that only makes the writes that no provisioner can avoid: each volume as
// soon as it sees the ask, and two to take it back. It keeps no record, emits no events and calls
// no driver. How fast it is beside the stock controllers no provisioner is.
type alone struct {
	api   client.Client
	slots chan struct{}

	mu    sync.Mutex
	begun map[types.UID]bool // claims that have a volume, and volumes that are taken back
}

// aloneWrites is how many writes it has in flight, as many as our provisioner by its defaults.
const aloneWrites = 100

// startAlone uses the account of our provisioner.
func (c *contest) startAlone(ctx context.Context) (t team, err error) {
	path, err := c.kubeconfig(ctx, accountProvisioner)
	if err != nil {
		return t, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	config.QPS = -1 // no limit
	a := &alone{slots: make(chan struct{}, aloneWrites), begun: map[types.UID]bool{}}
	if a.api, err = client.New(config, client.Options{Scheme: c.rig.api.Scheme()}); err != nil {
		return t, err
	}
	watches, err := kube.WatchClient(config)
	if err != nil {
		return t, err
	}
	cache, err := ctrlcache.New(config, ctrlcache.Options{HTTPClient: watches, Scheme: c.rig.api.Scheme()})
	if err != nil {
		return t, err
	}
	ctx, t.end = context.WithCancel(ctx)
	go func() { _ = cache.Start(ctx) }() // ends with ctx
	if err = a.follow(ctx, cache); err == nil {
		t.controllers, err = c.stockControllers(noLimits...)
	}
	if err != nil {
		t.end()
	}
	return t, err
}

func (a *alone) follow(ctx context.Context, cache ctrlcache.Cache) error {
	for _, kind := range []client.Object{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}} {
		informer, err := cache.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(in any) { a.see(ctx, in) }, UpdateFunc: func(_, in any) { a.see(ctx, in) },
		}); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

func (a *alone) see(ctx context.Context, in any) {
	switch o := in.(type) {
	case *corev1.PersistentVolumeClaim:
		if o.Annotations[names.AnnStorageProvisioner] == instantName && o.Spec.VolumeName == "" {
			a.once(ctx, o, func() error { return a.api.Create(ctx, newVolume(o, instantName)) })
		}
	case *corev1.PersistentVolume:
		if o.Annotations[names.AnnProvisionedBy] == instantName && o.Status.Phase == corev1.VolumeReleased {
			a.once(ctx, o, func() error { return a.takeBack(ctx, o) })
		}
	}
}

// takeBack lets the volume go before it deletes it, since then the protection is the last to go,
// the client that drops it.
func (a *alone) takeBack(ctx context.Context, pv *corev1.PersistentVolume) error {
	gone := &corev1.PersistentVolume{}
	gone.Name = pv.Name
	if err := a.api.Patch(ctx, gone, withoutFinalizers(pv.UID, names.FinalizerPVProtection)); err != nil {
		return err
	}
	return a.api.Delete(ctx, gone)
}

// once does something about an object that was not done before.
func (a *alone) once(ctx context.Context, o client.Object, do func() error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun[o.GetUID()] {
		return
	}
	a.begun[o.GetUID()] = true
	go func() {
		a.slots <- struct{}{}
		defer func() { <-a.slots }()
		if err := do(); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "%s: %s: %v\n", nameAlone, o.GetName(), err)
		}
	}()
}
