package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
)

// reportEvery is how often a node reports the volumes in use, if they have changed.
const reportEvery = 20 * time.Millisecond

// observer follows nodes and VolumeAttachments, and writes the status of the nodes: the volumes of
// the pods on a node are in use until the pods are gone.
type observer struct {
	api client.Client

	mu       sync.Mutex
	used     map[string]map[string]int // handles that pods use, by node
	reported map[string][]string       // what the node's status says
	listed   map[string]time.Time      // when node/handle was listed first
	attached map[string]string         // VolumeAttachments that exist: name to volume
	freed    map[string]time.Time      // when node/handle was reported unused
	gone     map[string]time.Time      // when the VolumeAttachment of a volume was gone
	begun    map[string]time.Time      // when node/handle was wanted
}

func newObserver(api client.Client) *observer {
	return &observer{
		api: api, used: map[string]map[string]int{}, reported: map[string][]string{},
		listed: map[string]time.Time{}, attached: map[string]string{}, freed: map[string]time.Time{},
		gone: map[string]time.Time{}, begun: map[string]time.Time{},
	}
}

func at(node, handle string) string { return node + "/" + handle }

// handlers are the observer's event handlers.
func (o *observer) follow(ctx context.Context, c cache.Cache) error {
	for kind, handler := range map[client.Object]toolscache.ResourceEventHandlerFuncs{
		&corev1.Node{}: {
			AddFunc:    func(object any) { o.sawNode(object.(*corev1.Node)) },
			UpdateFunc: func(_, object any) { o.sawNode(object.(*corev1.Node)) },
		},
		&storagev1.VolumeAttachment{}: {
			AddFunc:    func(object any) { o.sawAttachment(object.(*storagev1.VolumeAttachment)) },
			DeleteFunc: func(object any) { o.lostAttachment(object) },
		},
	} {
		informer, err := c.GetInformer(ctx, kind)
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	return nil
}

func (o *observer) sawNode(node *corev1.Node) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range node.Status.VolumesAttached {
		if _, handle, ok := names.ParseUniqueVolumeName(string(v.Name)); ok {
			if _, seen := o.listed[at(node.Name, handle)]; !seen {
				o.listed[at(node.Name, handle)] = now
			}
		}
	}
}

func (o *observer) sawAttachment(va *storagev1.VolumeAttachment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attached[va.Name] = *va.Spec.Source.PersistentVolumeName
}

func (o *observer) lostAttachment(object any) {
	if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	va := object.(*storagev1.VolumeAttachment)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.attached, va.Name)
	o.gone[*va.Spec.Source.PersistentVolumeName] = time.Now()
}

// want notes that a pod with the volume comes to the node, which is then in use there.
func (o *observer) want(node, handle string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used[node] == nil {
		o.used[node] = map[string]int{}
	}
	o.used[node][handle]++
	delete(o.listed, at(node, handle))
	o.begun[at(node, handle)] = time.Now()
}

// release notes that the pod is gone.
func (o *observer) release(node, handle string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used[node][handle]--; o.used[node][handle] <= 0 {
		delete(o.used[node], handle)
	}
	if !slices.Contains(o.reported[node], handle) { // it was gone before the node could report it
		o.freed[at(node, handle)] = time.Now()
	}
	delete(o.gone, handle)
}

// report writes the status of all nodes until ctx ends.
func (o *observer) report(ctx context.Context, nodes []string) {
	for _, node := range nodes {
		go func() {
			for ctx.Err() == nil {
				o.reportOne(ctx, node)
				time.Sleep(reportEvery)
			}
		}()
	}
}

func (o *observer) reportOne(ctx context.Context, node string) {
	o.mu.Lock()
	used, before := slices.Sorted(maps.Keys(o.used[node])), o.reported[node]
	o.mu.Unlock()
	if slices.Equal(used, before) {
		return
	}
	volumes := make([]string, 0, len(used))
	for _, handle := range used {
		volumes = append(volumes, names.UniqueVolumeName(driverName, handle))
	}
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": volumes}})
	if err != nil {
		return
	}
	object := &corev1.Node{}
	object.Name = node
	if err := o.api.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return
	}
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reported[node] = used
	for _, handle := range before {
		if !slices.Contains(used, handle) {
			o.freed[at(node, handle)] = now
		}
	}
}

// untilAttached waits until the volumes are listed, and returns how long each took.
func (o *observer) untilAttached(ctx context.Context, wanted []placed) ([]time.Duration, error) {
	return o.until(ctx, wanted, func(p placed) (time.Duration, bool) {
		listed, is := o.listed[at(p.node, p.handle)]
		return listed.Sub(o.begun[at(p.node, p.handle)]), is
	})
}

// untilDetached waits until the VolumeAttachments are gone, and returns how long each took since the
// node reported the volume unused.
func (o *observer) untilDetached(ctx context.Context, wanted []placed) ([]time.Duration, error) {
	return o.until(ctx, wanted, func(p placed) (time.Duration, bool) {
		gone, is := o.gone[p.handle]
		return gone.Sub(o.freed[at(p.node, p.handle)]), is
	})
}

func (o *observer) until(
	ctx context.Context, wanted []placed, took func(placed) (time.Duration, bool),
) (all []time.Duration, err error) {
	for {
		all = all[:0]
		o.mu.Lock()
		for _, p := range wanted {
			if d, done := took(p); done {
				all = append(all, d)
			}
		}
		o.mu.Unlock()
		if len(all) == len(wanted) {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return all, fmt.Errorf("%d of %d volumes are done: %w", len(all), len(wanted), ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}
