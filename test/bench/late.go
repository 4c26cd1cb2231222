package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/core/names"
)

// late is our provisioner beside the stock controllers, started when they have asked for
// everything. Beside each other, the two share an API server, and the one that is behind is as fast
// as the other lets it be; here each shows how fast it is.
type late struct {
	contest     *contest
	provisioner *sidecar // nil before it is started
}

func (c *contest) startLate(context.Context) (t team, err error) {
	l := &late{contest: c}
	t.beside, t.end = l.provision, l.stop
	t.controllers, err = c.stockControllers(noLimits...)
	return t, err
}

// provision starts the provisioner as soon as all claims are asked for.
func (l *late) provision(ctx context.Context, w *work) (err error) {
	var asked stamps
	see := func(in any) {
		if claim, ok := in.(*corev1.PersistentVolumeClaim); ok && claim.Namespace == w.namespace &&
			claim.Annotations[names.AnnStorageProvisioner] != "" {
			asked.add(claim.Name)
		}
	}
	forget, err := w.follow(
		ctx,
		&corev1.PersistentVolumeClaim{},
		toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, in any) { see(in) }},
	)
	if err != nil {
		return err
	}
	defer forget()
	if err := asked.await(ctx, w.claims); err != nil {
		return fmt.Errorf("claims that are asked for: %w", err)
	}
	l.provisioner, err = l.contest.startProvisioner(ctx)
	return err
}

// stop lets it resolve its journal entries, as [team.finish] does.
func (l *late) stop() {
	if l.provisioner != nil && l.provisioner.Stop() != nil {
		l.provisioner.Kill()
	}
}
