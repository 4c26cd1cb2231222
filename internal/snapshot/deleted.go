package snapshot

import (
	"context"
	"sync"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// deletedContents are the contents whose deletion the watch showed, by the VolumeSnapshot that they refer
// to: the cache lacks such a content because it is gone, and not because the cache is stale, so that no
// live read is needed. A new process reads live. It is safe for concurrent use.
type deletedContents struct {
	mu    sync.Mutex
	known map[types.NamespacedName]deletedContent
}

type deletedContent struct {
	name     string
	snapshot types.UID
}

func (d *deletedContents) add(content *snapshotv1.VolumeSnapshotContent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[types.NamespacedName]deletedContent{}
	}
	d.known[refOf(content)] = deletedContent{content.Name, content.Spec.VolumeSnapshotRef.UID}
}

// remove forgets the content of a VolumeSnapshot that does not exist any more, or of another one of its
// name.
func (d *deletedContents) remove(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, key)
}

// has reports whether the content of this very VolumeSnapshot was deleted.
func (d *deletedContents) has(vs *snapshotv1.VolumeSnapshot) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, deleted := d.known[types.NamespacedName{Namespace: vs.Namespace, Name: vs.Name}]
	return deleted && one == deletedContent{rules.ContentName(vs), vs.UID}
}

// withoutRead notes that the content of a terminating VolumeSnapshot was read, if its deletion was seen.
func (d *deletedContents) withoutRead(key types.NamespacedName, s rules.Snapshot) rules.Snapshot {
	switch {
	case s.Snapshot == nil:
		d.remove(key)
	case s.Content == nil && s.Snapshot.DeletionTimestamp != nil && d.has(s.Snapshot):
		s.Read = append(s.Read, rules.ReadContent)
	}
	return s
}

// contentEvents enqueues the VolumeSnapshot that a content refers to, and notes a deletion.
func (c *Controller) contentEvents() eventsOf[*snapshotv1.VolumeSnapshotContent] {
	return reconcile.OnChange(func(
		_ context.Context, e reconcile.Change[*snapshotv1.VolumeSnapshotContent], q queue,
	) {
		ref := refOf(e.Object())
		if ref.Name == "" {
			return
		}
		if e.IsDeleted() {
			c.deleted.add(e.Object())
		}
		q.Add(ref)
	})
}
