package claims

import (
	"context"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
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
func (c *contest) startAlone(ctx context.Context, t *team) error {
	config, err := c.Config(accountProvisioner)
	if err != nil {
		return err
	}
	a := &alone{slots: make(chan struct{}, aloneWrites), begun: map[types.UID]bool{}}
	if a.api, err = client.New(config, client.Options{Scheme: c.API.Scheme()}); err != nil {
		return err
	}
	ctx, t.end = context.WithCancel(ctx)
	cache, err := runner.NewCache(ctx, config, c.API.Scheme())
	if err != nil {
		return err
	}
	if _, err := runner.Observe(ctx, cache, &corev1.PersistentVolumeClaim{}, func(o *corev1.PersistentVolumeClaim) {
		if o.Annotations[names.AnnStorageProvisioner] == instantName && o.Spec.VolumeName == "" {
			a.once(ctx, o, func() error { return a.api.Create(ctx, newVolume(o, instantName)) })
		}
	}, nil); err != nil {
		return err
	}
	_, err = runner.Observe(ctx, cache, &corev1.PersistentVolume{}, func(o *corev1.PersistentVolume) {
		if o.Annotations[names.AnnProvisionedBy] == instantName && o.Status.Phase == corev1.VolumeReleased {
			a.once(ctx, o, func() error { return a.takeBack(ctx, o) })
		}
	}, nil)
	return err
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

// late is our provisioner beside the stock controllers, started when they have asked for
// everything. Beside each other, the two share an API server, and the one that is behind is as fast
// as the other lets it be; here each shows how fast it is.
type late struct {
	contest     *contest
	provisioner *runner.Process // nil before it is started
}

func (c *contest) startLate(_ context.Context, t *team) error {
	l := &late{contest: c}
	t.beside, t.end = l.provision, l.stop
	return nil
}

// provision starts the provisioner as soon as all claims are asked for.
func (l *late) provision(ctx context.Context, w *work) (err error) {
	var asked runner.Times
	see := func(claim *corev1.PersistentVolumeClaim) {
		if claim.Namespace == w.namespace && claim.Annotations[names.AnnStorageProvisioner] != "" {
			asked.Add(claim.Name)
		}
	}
	forget, err := runner.Observe(ctx, w.cache, &corev1.PersistentVolumeClaim{}, see, nil)
	if err != nil {
		return err
	}
	defer forget()
	if err := asked.Await(ctx, w.claims); err != nil {
		return fmt.Errorf("claims that are asked for: %w", err)
	}
	l.provisioner, err = l.contest.Start(ctx, nameLate, provisioner)
	return err
}

// stop lets it resolve its journal entries, as [team.finish] does.
func (l *late) stop() {
	if l.provisioner != nil && l.provisioner.Stop() != nil {
		l.provisioner.Kill()
	}
}
