package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// contest has the stock volume controllers and ours do the same, one after the other, on one API server, with the same provisioner
// and a driver that takes no time; and a bare client that makes nothing but the writes which nobody can avoid.
type contest struct {
	*rig
	load
	claims  int
	pairs   int // bound ones that are there for the last trial
	rows    []trialResult
	idle    []idleResult
	began   time.Time
	watched context.Context
}

// trialResult is one row of the table.
type trialResult struct {
	trial, contender string
	claims           int
	took             time.Duration   // from the first request to the last claim that is as it should be
	times            []time.Duration // of each claim
	api              audit.Tally     // what the contender asked
	cpu              time.Duration   // of the contender
	memory           memory
}

// idleResult is what a contender costs that has nothing to do.
type idleResult struct {
	contender string
	share     float64 // of one core
	memory    memory
}

// idleTime is how long an idle contender is looked at: twice the resync of the stock controllers.
const idleTime = 30 * time.Second

const contestClass = "contest"

func newContest(ctx context.Context, bin, dir string, o options) (_ *contest, err error) {
	c := &contest{rig: &rig{bin: bin, dir: dir}, claims: o.claims, pairs: o.pairs, watched: ctx}
	binaries, err := cluster.FindBinaries(cluster.Components{cluster.ControllerManager}.Programs(), bin)
	if err != nil {
		return nil, err
	}
	if c.cluster, err = cluster.Start(ctx, cluster.Config{Dir: filepath.Join(dir, "cluster"), Binaries: binaries, Audit: true}); err != nil {
		return nil, err
	}
	if err := errors.Join(c.connect(), c.furnish(ctx)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.load = load{api: c.api(), claims: o.claims, workers: o.workers}
	if c.cache, err = ctrlcache.New(c.cluster.RESTConfig(), ctrlcache.Options{Scheme: c.api().Scheme()}); err != nil {
		return nil, errors.Join(err, c.close())
	}
	go func() { _ = c.cache.Start(ctx) }() // ends with ctx
	return c, nil
}

func (c *contest) api() client.WithWatch { return c.rig.api }

// furnish makes the classes, and the accounts of the contenders with what they may do.
func (c *contest) furnish(ctx context.Context) error {
	immediate := storagev1.VolumeBindingImmediate
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: accountNamespace}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: contestClass}, Provisioner: instantName, VolumeBindingMode: &immediate},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: staticClass}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &immediate},
	} {
		if err := c.api().Create(ctx, object); err != nil {
			return fmt.Errorf("%T: %w", object, err)
		}
	}
	return c.grant(ctx, "controllers", "csi-provisioner")
}

func (c *contest) log() *audit.Log {
	return &audit.Log{Path: c.cluster.AuditLog(), Touch: func(ctx context.Context, mark string) error {
		return client.IgnoreNotFound(c.api().Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{}))
	}}
}

// run is the whole contest.
func (c *contest) run(ctx context.Context) error {
	driver, err := serveInstant(c.socket())
	if err != nil {
		return err
	}
	defer driver.close()
	account, err := c.kubeconfig(ctx, "csi-provisioner")
	if err != nil {
		return err
	}
	provisioner, err := c.provisionAs(ctx, account)
	if err != nil {
		return err
	}
	defer provisioner.Kill()
	contenders := c.contenders()
	for _, who := range contenders {
		if err := c.turn(ctx, who, trials()); err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
	}
	if c.pairs > 0 {
		fmt.Fprintf(os.Stderr, "Making %d bound claims and volumes ...\n", c.pairs)
		if err := c.present(ctx, c.pairs); err != nil {
			return err
		}
		for _, who := range contenders {
			if err := c.turn(ctx, who, []trial{dynamicTrial(fmt.Sprintf("dynamic, with %d bound", c.pairs))}); err != nil {
				return fmt.Errorf("%s: %w", who.name, err)
			}
		}
	}
	return nil
}

// turn has one contender do the trials.
func (c *contest) turn(ctx context.Context, who contender, all []trial) error {
	fmt.Fprintf(os.Stderr, "%s ...\n", who.name)
	program, err := who.start(ctx)
	if err != nil {
		return err
	}
	if program != nil {
		defer program.Kill()
		if err := c.awaitWork(ctx, who.name); err != nil {
			return err
		}
	}
	for _, t := range all {
		if err := c.try(ctx, who, program, t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if program == nil {
		return nil
	}
	return c.rest(ctx, who, program)
}

// rest looks at the contender while there is nothing to do.
func (c *contest) rest(ctx context.Context, who contender, program *stage.Program) error {
	if c.pairs == 0 {
		return nil
	}
	var present corev1.PersistentVolumeList
	if err := c.cache.List(ctx, &present, client.Limit(1)); err != nil || len(present.Items) == 0 {
		return err
	}
	before, err := cpuOf(program.Pid())
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleTime):
	}
	after, err := cpuOf(program.Pid())
	if err != nil {
		return err
	}
	m, err := memoryOf(program.Pid())
	c.idle = append(c.idle, idleResult{who.name, (after - before).Seconds() / idleTime.Seconds(), m})
	return err
}
