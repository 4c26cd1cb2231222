package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/kube"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// csiNodeUpdater keeps Node and CSINode as the registered drivers say. It writes a driver again when
// the Node or the CSINode was deleted and created again, or when the entry is gone, and it asks
// drivers for another limit of volumes (KEP-4876). It is safe for concurrent use.
type csiNodeUpdater struct {
	*Agent
	wake chan struct{}
	// writing is held by each write of a registration, so that the entry of a driver that is removed
	// meanwhile is not written after it was erased.
	writing sync.Mutex
}

func newCSINodeUpdater(a *Agent) *csiNodeUpdater {
	return &csiNodeUpdater{Agent: a, wake: make(chan struct{}, 1)}
}

// changed has Node, CSINode and limits looked at.
func (u *csiNodeUpdater) changed() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// exhausted notes that a driver has refused a volume because the node has no room for it.
func (u *csiNodeUpdater) exhausted(driver string) {
	u.drivers.edit(driver, nil, func(r *registered) { r.exhausted = true })
	u.changed()
}

// Start implements manager.Runnable.
func (u *csiNodeUpdater) Start(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	pause := firstRegisterPause
	for ctx.Err() == nil {
		next := u.askDue(ctx, &asking)
		err := u.restore(ctx)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "cannot write the registration of the csi drivers again yet",
				"node", u.Node, telemetry.KeyRetry, pause.String())
			if next == 0 || pause < next {
				next = pause
			}
			pause = min(2*pause, mostRegisterPause)
		} else {
			pause = firstRegisterPause
		}
		u.sleep(ctx, next)
	}
	return nil
}

// sleep waits until something has changed, or until a while has passed; 0 for no bound.
func (u *csiNodeUpdater) sleep(ctx context.Context, while time.Duration) {
	var due <-chan time.Time
	if while > 0 {
		timer := u.Clock.NewTimer(while)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-u.wake:
	case <-due:
	}
}

// restore writes the drivers again whose registration Node and CSINode have lost.
func (u *csiNodeUpdater) restore(ctx context.Context) error {
	u.writing.Lock()
	defer u.writing.Unlock()
	state, err := u.registration(ctx)
	if err != nil {
		return err
	}
	var lost []registered
	for _, name := range state.Unwritten() {
		if r := u.drivers.registered(name); r != nil {
			lost = append(lost, *r)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	uid, err := u.writeDrivers(ctx, lost)
	for _, r := range lost {
		if err == nil {
			u.drivers.edit(r.Name, r.conn, func(now *registered) {
				if now.info == r.info { // else the limit has changed meanwhile
					now.written = uid
				}
			})
			logr.FromContextOrDiscard(ctx).Info(
				"wrote the registration of the csi driver again", telemetry.KeyDriver, r.Name, "node", u.Node,
			)
		}
	}
	return err
}

// registration reads Node and CSINode.
func (u *csiNodeUpdater) registration(ctx context.Context) (state mounting.Registration, err error) {
	key := types.NamespacedName{Name: u.Node}
	if state.Node, err = kube.Get(ctx, u.Cached, key, &corev1.Node{}); err != nil {
		return state, err
	}
	if state.CSINode, err = kube.Get(ctx, u.Cached, key, &storagev1.CSINode{}); err != nil {
		return state, err
	}
	state.Written = map[string]types.UID{}
	for _, r := range u.drivers.bySocket() {
		state.Written[r.Name] = r.written
	}
	return state, nil
}

// askDue asks the drivers that are due for the limit of the node, each in its own goroutine: a driver
// that hangs does not delay the others. It returns when the next one is due; 0 for never.
func (u *csiNodeUpdater) askDue(ctx context.Context, asking *sync.WaitGroup) (next time.Duration) {
	now := u.Clock.Now()
	for _, r := range u.drivers.bySocket() {
		info, err := kube.Get(ctx, u.Cached, types.NamespacedName{Name: r.Name}, &storagev1.CSIDriver{})
		if err != nil || r.asking {
			continue // the cache does not fail once it is filled
		}
		due := mounting.LimitDue(info, r.asked, r.exhausted)
		switch {
		case due.IsZero():
			continue
		case !due.After(now):
			u.drivers.edit(r.Name, r.conn, func(r *registered) { r.asking, r.exhausted = true, false })
			asking.Go(func() { u.ask(ctx, r) })
		case next == 0 || due.Sub(now) < next:
			next = due.Sub(now)
		}
	}
	return next
}

// ask calls NodeGetInfo. Only the limit of an entry in a CSINode can change.
func (u *csiNodeUpdater) ask(ctx context.Context, r registered) {
	most, err := u.limit(ctx, r)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info(
			"cannot read the limit of volumes of the node", telemetry.KeyDriver, r.Name, "problem", err.Error(),
		)
		most = r.info.GetMaxVolumesPerNode()
	}
	u.drivers.edit(r.Name, r.conn, func(now *registered) {
		now.asking, now.asked = false, u.Clock.Now()
		if most == now.info.GetMaxVolumesPerNode() {
			return
		}
		now.info = &csi.NodeGetInfoResponse{
			NodeId: now.info.GetNodeId(), AccessibleTopology: now.info.GetAccessibleTopology(), MaxVolumesPerNode: most,
		}
		now.written = ""
	})
	u.changed()
}

func (u *csiNodeUpdater) limit(ctx context.Context, r registered) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	info, err := r.conn.Node().NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return 0, fmt.Errorf("NodeGetInfo: %w", err)
	}
	return info.GetMaxVolumesPerNode(), nil
}

// register writes a driver that registers, and makes it known.
func (u *csiNodeUpdater) register(ctx context.Context, r *registered) error {
	u.writing.Lock()
	defer u.writing.Unlock()
	uid, err := u.writeDrivers(ctx, []registered{*r})
	if err != nil {
		return err
	}
	r.socket, r.written, r.asked = true, uid, u.Clock.Now()
	u.drivers.add(r)
	u.changed()
	return nil
}

// deregister forgets a driver and erases its entry. Without a Node there is nothing to erase: the
// garbage collector deletes the CSINode.
func (u *csiNodeUpdater) deregister(ctx context.Context, name string) error {
	u.drivers.remove(name)
	u.writing.Lock()
	defer u.writing.Unlock()
	if u.drivers.registered(name) != nil {
		return nil // registered again meanwhile
	}
	if err := u.eraseDriver(ctx, name); !errors.Is(err, errNoNode) {
		return err
	}
	return nil
}
