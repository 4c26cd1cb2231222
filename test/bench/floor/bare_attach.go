package floor

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// attach is FL-14 for a volume that was not attached before. Together, the finalizer and the node id are
// in the VolumeAttachment that is created, and the finalizer of the PersistentVolume is there.
func (b *bare) attach(ctx context.Context, it *item) error {
	finalizer := names.AttacherFinalizer(driverName)
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-" + it.name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driverName, NodeName: it.node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &it.pair.pv.Name},
		},
	}
	if b.form == together {
		va.Finalizers, va.Annotations = []string{finalizer}, map[string]string{names.AnnAttachedNodeID: it.node}
	}
	it.attachment = va
	if err := b.all(b.create(ctx, va)); err != nil {
		return err
	}
	protect := b.patch(ctx, va, map[string]any{
		"finalizers": []string{finalizer}, "annotations": map[string]string{names.AnnAttachedNodeID: it.node},
	})
	pv := it.pair.pv
	if err := b.alone(b.finalize(ctx, pv, append(slices.Clone(pv.Finalizers), finalizer)...), protect); err != nil {
		return err
	}
	va.Status.Attached = true
	if err := b.all(b.status(ctx, va)); err != nil {
		return err
	}
	if err := b.listOf(it.node).write(ctx, b, pv.Name, true); err != nil {
		return err
	}
	return b.used(ctx, it, corev1.ConditionFalse)
}

// used is FL-20, the condition Unused of a claim.
func (b *bare) used(ctx context.Context, it *item, unused corev1.ConditionStatus) error {
	it.pair.claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
		Type: corev1.PersistentVolumeClaimUnused, Status: unused, LastTransitionTime: metav1.Now(),
	}}
	return b.all(b.status(ctx, it.pair.claim))
}

// detach is FL-15.
func (b *bare) detach(ctx context.Context, it *item) error {
	if err := b.listOf(it.node).write(ctx, b, it.pair.pv.Name, false); err != nil {
		return err
	}
	if err := b.all(b.delete(ctx, it.attachment), b.finalize(ctx, it.attachment)); err != nil {
		return err
	}
	return b.used(ctx, it, corev1.ConditionTrue)
}

func (b *bare) listOf(node string) *nodeList {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes[node] == nil {
		b.nodes[node] = &nodeList{node: node, volumes: map[string]bool{}}
	}
	return b.nodes[node]
}

// nodeList is the volumes in the status of a node. While one write is under way, further volumes wait
// and share the next one.
type nodeList struct {
	node string

	mu      sync.Mutex
	volumes map[string]bool
	changes int

	writing sync.Mutex
	written int // changes that are in the status
}

// write returns when the change is in the status of the node.
func (l *nodeList) write(ctx context.Context, b *bare, volume string, attached bool) error {
	l.mu.Lock()
	if attached {
		l.volumes[volume] = true
	} else {
		delete(l.volumes, volume)
	}
	l.changes++
	mine := l.changes
	l.mu.Unlock()

	l.writing.Lock()
	defer l.writing.Unlock()
	if l.written >= mine {
		return nil
	}
	l.mu.Lock()
	volumes, changes := slices.Sorted(maps.Keys(l.volumes)), l.changes
	l.mu.Unlock()
	list := make([]map[string]string, 0, len(volumes))
	for _, v := range volumes {
		list = append(list, map[string]string{"name": names.UniqueVolumeName(driverName, v), "devicePath": ""})
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.node}}
	patch := mergePatch(map[string]any{"status": map[string]any{"volumesAttached": list}})
	err := b.all(func() error { return b.api.Status().Patch(ctx, node, patch, client.FieldOwner("bare")) })
	if err == nil {
		l.written = changes
	}
	return err
}
