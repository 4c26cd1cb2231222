package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// inUse writes status.volumesInUse of the node as soon as it changes (5.13 c). A volume is in use
// from the wish of a pod until nothing of it is left on the node. While a write is in flight,
// changes are collected; the next write has all of them. It is safe for concurrent use.
type inUse struct {
	*Agent
	wake  chan struct{}
	begun chan struct{}

	mu       sync.Mutex
	wanted   map[mounting.Key]bool
	reported map[corev1.UniqueVolumeName]bool // what the API server has answered
}

func newInUse(a *Agent) *inUse {
	return &inUse{
		Agent: a, wake: make(chan struct{}, 1), begun: make(chan struct{}),
		wanted: map[mounting.Key]bool{}, reported: map[corev1.UniqueVolumeName]bool{},
	}
}

// begin lets the first report be written: the record of an earlier process is read (5.10).
func (u *inUse) begin() { close(u.begun) }

func (u *inUse) isReported(name corev1.UniqueVolumeName) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reported[name]
}

// want notes whether a volume that needs an attachment is wanted by a pod.
func (u *inUse) want(key mounting.Key, wanted bool) {
	u.mu.Lock()
	if wanted {
		u.wanted[key] = true
	} else {
		delete(u.wanted, key)
	}
	u.mu.Unlock()
	u.changed()
}

func (u *inUse) isWanted(key mounting.Key) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.wanted[key]
}

func (u *inUse) changed() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// retryReport is the pause after a failed write.
const retryReport = time.Second

// Start implements manager.Runnable.
func (u *inUse) Start(ctx context.Context) error {
	select {
	case <-u.begun:
	case <-ctx.Done():
		return nil
	}
	u.changed()
	for {
		select {
		case <-u.wake:
		case <-ctx.Done():
			return nil
		}
		if err := u.report(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "cannot report the volumes in use; trying again", "node", u.Node)
			select {
			case <-ctx.Done():
			case <-u.Clock.After(retryReport):
				u.changed()
			}
		}
	}
}

// report writes the list if it differs from the node's, and has the new volumes looked at.
func (u *inUse) report(ctx context.Context) error {
	list, err := u.list(ctx)
	if err != nil {
		return err
	}
	node, err := kube.Get(ctx, u.Cached, types.NamespacedName{Name: u.Node}, &corev1.Node{})
	if err != nil || node == nil {
		return err // the Node's creation is another program's; its event starts the next report
	}
	have := slices.Sorted(slices.Values(node.Status.VolumesInUse))
	if !slices.Equal(have, list) {
		if node, err = u.write(ctx, node, list); err != nil {
			return err
		}
	}
	u.mu.Lock()
	var added []corev1.UniqueVolumeName
	reported := map[corev1.UniqueVolumeName]bool{}
	for _, name := range node.Status.VolumesInUse {
		reported[name] = true
		if !u.reported[name] {
			added = append(added, name)
		}
	}
	u.reported = reported
	u.mu.Unlock()
	for _, name := range added {
		if driver, handle, ok := names.ParseUniqueVolumeName(string(name)); ok {
			u.enqueue(mounting.Key{Driver: driver, Handle: handle})
		}
	}
	return nil
}

// list returns the volumes in use, sorted: those that a pod wants, and those that are on the node.
func (u *inUse) list(ctx context.Context) ([]corev1.UniqueVolumeName, error) {
	set, attaches := map[corev1.UniqueVolumeName]bool{}, map[string]bool{}
	for _, key := range u.records.keys() {
		if _, known := attaches[key.Driver]; !known {
			info, err := kube.Get(ctx, u.Cached, types.NamespacedName{Name: key.Driver}, &storagev1.CSIDriver{})
			if err != nil {
				return nil, err
			}
			attaches[key.Driver] = mounting.NeedsAttach(info)
		}
		if !key.IsInline() && attaches[key.Driver] {
			set[key.UniqueName()] = true
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range u.wanted {
		set[key.UniqueName()] = true
	}
	list := make([]corev1.UniqueVolumeName, 0, len(set))
	for name := range set {
		list = append(list, name)
	}
	slices.Sort(list)
	return list, nil
}

func (u *inUse) write(ctx context.Context, node *corev1.Node, list []corev1.UniqueVolumeName) (*corev1.Node, error) {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID}, "status": map[string]any{"volumesInUse": list},
	})
	if err != nil {
		return nil, err
	}
	changed := node.DeepCopy()
	if err := u.Writer.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return nil, fmt.Errorf("write the volumes in use of node %q: %w", u.Node, err)
	}
	return changed, nil
}
