package claims

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

const (
	// leaseTime is short, so that one need not wait long for a leader that is dead.
	leaseTime = 3 * time.Second
	// takeoverGoal is from the lease to the first volume.
	takeoverGoal = time.Second
	// failoverRounds is how often each kind of end is tried.
	failoverRounds = 3
	// claimEvery is how often a claim is created meanwhile. No gap can be measured more exactly.
	claimEvery = 50 * time.Millisecond
	// warmVolumes are made by a leader before it ends.
	warmVolumes = 10
)

// leaderChange is what is seen when a leader ends while claims come in. All times are those at
// which our watches delivered the change.
type leaderChange struct {
	signalled time.Time
	last      time.Time // PersistentVolume of the previous leader
	taken     time.Time // the other one holds the lease
	first     time.Time // PersistentVolume of the other one
}

func (h leaderChange) takeover() time.Duration { return h.first.Sub(h.taken) }
func (h leaderChange) gap() time.Duration      { return h.first.Sub(h.last) }

// failover has the changes of the leader after kill -9 and after SIGTERM.
type failover struct{ killed, asked []leaderChange }

func (c *contest) measureFailover(ctx context.Context) (f failover, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "failover"}, Provisioner: driverName}
	if err := errors.Join(c.begin(ctx), c.API.Create(ctx, class)); err != nil {
		return f, err
	}
	leader, err := c.candidate(ctx)
	if err != nil {
		return f, err
	}
	go func() { cancel(c.trickle(ctx, class.Name)) }()
	seen := makers{former: map[string]bool{}}
	for _, end := range []struct {
		signal syscall.Signal
		into   *[]leaderChange
	}{{syscall.SIGKILL, &f.killed}, {syscall.SIGTERM, &f.asked}} {
		for range failoverRounds {
			h, next, err := c.changeLeader(ctx, leader, end.signal, &seen)
			if err != nil {
				return f, errors.Join(fmt.Errorf("%s: %w", end.signal, err), context.Cause(ctx))
			}
			*end.into, leader = append(*end.into, h), next
		}
	}
	leader.Kill()
	return f, nil
}

// candidate starts a provisioner that leads, or waits to.
func (c *contest) candidate(ctx context.Context) (*runner.Process, error) {
	return c.Start(ctx, "candidate", runner.Program{
		Name: "purser", Socket: true, HTTP: true, Ready: true, Args: []string{
			"csi-provisioner", "--leader-election", "--leader-election-namespace=" + namespace,
			"--leader-election-lease-duration=" + leaseTime.String(),
			"--leader-election-renew-deadline=2s", "--leader-election-retry-period=500ms",
		},
	})
}

// trickle makes claims until ctx ends.
func (l load) trickle(ctx context.Context, class string) error {
	ticker := time.NewTicker(claimEvery)
	defer ticker.Stop()
	for i := 0; ; i++ {
		claim := newClaim(namespace, i)
		claim.Spec.StorageClassName = &class
		if err := l.api.Create(ctx, claim); err != nil {
			return fmt.Errorf("create claims: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// changeLeader ends the leader and returns when the other one has made its first volume.
func (c *contest) changeLeader(
	ctx context.Context, leader *runner.Process, end syscall.Signal, seen *makers,
) (h leaderChange, next *runner.Process, err error) {
	if next, err = c.candidate(ctx); err != nil {
		return h, nil, err
	}
	leases, err := c.API.Watch(ctx, &coordinationv1.LeaseList{}, client.InNamespace(namespace))
	if err != nil {
		return h, nil, err
	}
	defer leases.Stop()
	volumes, err := c.API.Watch(ctx, &corev1.PersistentVolumeList{})
	if err != nil {
		return h, nil, err
	}
	defer volumes.Stop()
	o := onlooker{makers: seen, leader: leader, end: end}
	for o.first.IsZero() || o.taken.IsZero() {
		if err := o.look(ctx, leases.ResultChan(), volumes.ResultChan()); err != nil {
			return h, nil, err
		}
	}
	seen.succeed()
	return o.leaderChange, next, nil
}

// onlooker follows one change of the leader.
type onlooker struct {
	leaderChange
	*makers
	leader *runner.Process
	end    syscall.Signal
	holder string // of the lease, before the end
	warm   int    // volumes of the leader
}

// makers are the provisioners by the names that they write on their volumes; "" for one that has
// made none yet.
type makers struct {
	now, next string
	former    map[string]bool
}

// succeed has the next one lead.
func (m *makers) succeed() {
	m.former[m.now] = true
	m.now, m.next = m.next, ""
}

func (o *onlooker) look(ctx context.Context, leases, volumes <-chan watch.Event) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case event, ok := <-leases:
		if lease, is := event.Object.(*coordinationv1.Lease); is && lease.Spec.HolderIdentity != nil &&
			lease.Spec.LeaseDurationSeconds != nil {
			o.sawHolder(lease)
		} else if !ok {
			return errors.New("the watch of leases has ended")
		}
	case event, ok := <-volumes:
		if !ok {
			return errors.New("the watch of volumes has ended")
		}
		if pv, is := event.Object.(*corev1.PersistentVolume); is && event.Type == watch.Added {
			return o.sawVolume(pv)
		}
	}
	return nil
}

func (o *onlooker) sawHolder(lease *coordinationv1.Lease) {
	holder := *lease.Spec.HolderIdentity
	switch {
	case lease.Name != leaseName || holder == "": // another lease, or one that was given back
	case o.signalled.IsZero():
		o.holder = holder
	case o.taken.IsZero() && holder != o.holder:
		o.taken = time.Now()
	}
}

// sawVolume ends the leader once it has made enough.
func (o *onlooker) sawVolume(pv *corev1.PersistentVolume) error {
	if pv.Spec.CSI == nil {
		return nil
	}
	switch by := pv.Spec.CSI.VolumeAttributes[names.AttributeProvisionerIdentity]; {
	case o.former[by]: // made before
	case o.now == "", o.now == by:
		o.now, o.last = by, time.Now()
		o.warm++
	case o.first.IsZero():
		o.next, o.first = by, time.Now()
	}
	if o.warm < warmVolumes || o.holder == "" || !o.signalled.IsZero() {
		return nil
	}
	o.signalled = time.Now()
	return syscall.Kill(o.leader.Pid(), o.end)
}

// leaseName is upstream's for the driver.
const leaseName = "csi-purser"

func (f failover) report() string {
	return fmt.Sprintf(`A leader ends while a claim comes in every %d ms. The lease is for %s.
leader killed:       from the lease to the first PV of the next: %s (goal at most %d ms)
                     from the last PV of the previous one to that one: %s
leader told to end:  from the last PV of the previous one to the first of the next: %s
                     from the lease to that one: %s
`,
		claimEvery.Milliseconds(), leaseTime,
		milliseconds(f.killed, leaderChange.takeover), takeoverGoal.Milliseconds(), milliseconds(f.killed, leaderChange.gap),
		milliseconds(f.asked, leaderChange.gap), milliseconds(f.asked, leaderChange.takeover))
}

// milliseconds has one number per round.
func milliseconds(rounds []leaderChange, what func(leaderChange) time.Duration) string {
	all := make([]string, len(rounds))
	for i, h := range rounds {
		all[i] = strconv.FormatInt(what(h).Milliseconds(), 10)
	}
	return strings.Join(all, ", ") + " ms"
}
