package floor

import (
	"context"
	"slices"
	"strings"
	"sync"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

// ends are the times at which watches show that operations are over, by the names of items.
type ends struct {
	of map[string]*runner.Times // by operation

	mu     sync.Mutex
	claims map[string]string // the claim of each PersistentVolume
	halves map[string]bool   // items of which the VolumeSnapshot or its content is gone
}

func newEnds() *ends {
	e := &ends{of: map[string]*runner.Times{}, claims: map[string]string{}, halves: map[string]bool{}}
	for _, o := range operations() {
		e.of[o.name] = &runner.Times{}
	}
	return e
}

// follow watches the objects that show the ends.
func (e *ends) follow(ctx context.Context, r *runner.Run) error {
	for _, begin := range []func() error{
		func() error { return observe(ctx, r, &corev1.PersistentVolumeClaim{}, e.sawClaim, nil) },
		func() error { return observe(ctx, r, &corev1.PersistentVolume{}, nil, e.lostVolume) },
		func() error { return observe(ctx, r, &corev1.Node{}, e.sawNode, nil) },
		func() error { return observe(ctx, r, &storagev1.VolumeAttachment{}, nil, e.lostAttachment) },
		func() error { return observe(ctx, r, &snapshotv1.VolumeSnapshot{}, e.sawSnapshot, e.lostSnapshot) },
		func() error { return observe(ctx, r, &snapshotv1.VolumeSnapshotContent{}, nil, e.lostContent) },
	} {
		if err := begin(); err != nil {
			return err
		}
	}
	return nil
}

func observe[T client.Object](ctx context.Context, r *runner.Run, kind T, seen, gone func(T)) error {
	_, err := runner.Observe(ctx, r.Cache, kind, seen, gone)
	return err
}

func (e *ends) sawClaim(claim *corev1.PersistentVolumeClaim) {
	if claim.Status.Phase != corev1.ClaimBound {
		return
	}
	if source, isRestored := strings.CutPrefix(claim.Name, restored); isRestored {
		e.of[opRestore].Add(source)
		return
	}
	e.mu.Lock()
	e.claims[claim.Spec.VolumeName] = claim.Name
	e.mu.Unlock()
	e.of[opProvision].Add(claim.Name)
	if isExpanded(claim) {
		e.of[opExpand].Add(claim.Name)
	}
	if current := claim.Status.CurrentVolumeAttributesClassName; current != nil && *current == modified &&
		claim.Status.ModifyVolumeStatus == nil {
		e.of[opModify].Add(claim.Name)
	}
}

// isExpanded reports whether the claim has the double size, and nothing of the expansion is left.
func isExpanded(claim *corev1.PersistentVolumeClaim) bool {
	size := claim.Status.Capacity[corev1.ResourceStorage]
	return size.Equal(doubleSize) && len(claim.Status.AllocatedResourceStatuses) == 0 &&
		!slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimResizing
		})
}

func (e *ends) lostVolume(pv *corev1.PersistentVolume) {
	if pv.Spec.ClaimRef != nil {
		e.of[opDelete].Add(pv.Spec.ClaimRef.Name)
	}
}

func (e *ends) sawNode(node *corev1.Node) {
	for _, v := range node.Status.VolumesAttached {
		if _, handle, ok := names.ParseUniqueVolumeName(string(v.Name)); ok {
			e.of[opAttach].Add(e.claimOf(handle))
		}
	}
}

func (e *ends) lostAttachment(va *storagev1.VolumeAttachment) {
	e.of[opDetach].Add(e.claimOf(*va.Spec.Source.PersistentVolumeName))
}

// claimOf returns the name of a volume's claim. The handle of a volume is its name.
func (e *ends) claimOf(volume string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.claims[volume]
}

func (e *ends) sawSnapshot(s *snapshotv1.VolumeSnapshot) {
	if s.Status != nil && s.Status.ReadyToUse != nil && *s.Status.ReadyToUse {
		e.of[opSnapshot].Add(s.Name)
	}
}

func (e *ends) lostSnapshot(s *snapshotv1.VolumeSnapshot) { e.lostHalf(s.Name) }

func (e *ends) lostContent(c *snapshotv1.VolumeSnapshotContent) {
	e.lostHalf(c.Spec.VolumeSnapshotRef.Name)
}

// lostHalf ends the deletion of a snapshot when both of its objects are gone.
func (e *ends) lostHalf(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halves[name] {
		e.of[opDeleteSnapshot].Add(name)
	}
	e.halves[name] = true
}
