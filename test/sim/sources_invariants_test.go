package sim

import (
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// ofSources is what must hold where volumes are made from others.
func (e end) ofSources() {
	e.noLeak()
	e.noDouble()
	e.noStuckFinalizer()
	e.big()
	e.resolved()
	e.copied()
	e.sourcesAreFree()
}

// copied is that each claim whose source is there, and large enough for it, has its volume.
func (e end) copied() {
	for _, claim := range e.claims {
		ref := source.Of(claim)
		small := claim.Spec.Resources.Requests.Storage().Value() < 1<<30
		if e.hasClass(claim) && !e.losesVolume(claim) && claim.DeletionTimestamp == nil && claim.Status.Phase != corev1.ClaimBound && !small && (ref.IsNone() || e.sourceExists(ref)) {
			e.violate("S3: claim %s has no volume, and its source exists", claim.Name)
		}
	}
}

// losesVolume reports whether an administrator deleted the volume of a claim before it was bound.
func (e end) losesVolume(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(e.volumes, func(pv *corev1.PersistentVolume) bool {
		return refersTo(pv.Spec.ClaimRef, claim) && pv.DeletionTimestamp != nil
	})
}

func (e end) sourceExists(ref source.Ref) bool {
	if ref.IsClaim() {
		return slices.ContainsFunc(e.claims, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Name == ref.Name && c.DeletionTimestamp == nil
		})
	}
	return slices.ContainsFunc(apiserver.Objects(e.server, &snapshotv1.VolumeSnapshot{}), func(vs *snapshotv1.VolumeSnapshot) bool {
		return vs.Name == ref.Name && vs.DeletionTimestamp == nil
	})
}

// sourcesAreFree is S1: no source has our finalizer for which no claim waits, and none of another
// driver has lost it.
func (e end) sourcesAreFree() {
	waits := func(ref source.Ref) bool {
		return slices.ContainsFunc(e.claims, func(c *corev1.PersistentVolumeClaim) bool { return source.Waits(c) && source.Of(c) == ref })
	}
	for _, claim := range e.claims {
		ref := source.Ref{Kind: source.KindClaim}
		ref.Namespace, ref.Name = claim.Namespace, claim.Name
		if source.IsProtected(claim, ref) && !waits(ref) {
			e.violate("S1: claim %s has the finalizer of clone sources, and no claim waits for it", claim.Name)
		}
	}
	for _, vs := range apiserver.Objects(e.server, &snapshotv1.VolumeSnapshot{}) {
		ref := source.Ref{Group: names.SnapshotGroup, Kind: source.KindSnapshot}
		ref.Namespace, ref.Name = vs.Namespace, vs.Name
		protected := source.IsProtected(vs, ref)
		if vs.Name == foreignSnapshot && !protected {
			e.violate("S1: the snapshot of another driver lost the finalizer of its provisioner")
		} else if vs.Name != foreignSnapshot && protected && !waits(ref) {
			e.violate("S1: snapshot %s has our finalizer, and no claim waits for it", vs.Name)
		}
	}
}

// copying looks at a CreateVolume call that is sent, S2: its source exists, and has the finalizer.
func (w *world) copying(request *csi.CreateVolumeRequest) {
	from := request.GetVolumeContentSource()
	if from == nil {
		return
	}
	id := from.GetSnapshot().GetSnapshotId() + from.GetVolume().GetVolumeId()
	if !w.driver.HasSource(id) && !w.driver.Has(request.GetName()) {
		w.violate("S2: volume %s is to be made from %s, which is gone", request.GetName(), id)
	}
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		if want := claim.Annotations[annMadeFrom]; want != "" && want != id && "pvc-"+string(claim.UID) == request.GetName() {
			w.violate("S5: volume %s is to be made from %s, and claim %s names %s", request.GetName(), id, claim.Name, want)
		}
	}
	for _, vs := range apiserver.Objects(w.server, &snapshotv1.VolumeSnapshot{}) {
		if w.driver.Has(request.GetName()) {
			break // a call of a previous leader that arrives late copies nothing
		}
		if "handle-"+strings.TrimPrefix(*vs.Status.BoundVolumeSnapshotContentName, "content-") == id && !slices.Contains(vs.Finalizers, names.FinalizerRestoreSource) {
			w.violate("S2: volume %s is to be made from snapshot %s without the finalizer", request.GetName(), vs.Name)
		}
	}
	for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		if pv.Spec.CSI == nil || pv.Spec.CSI.VolumeHandle != id || pv.Spec.ClaimRef == nil {
			continue
		}
		for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
			if claim.UID == pv.Spec.ClaimRef.UID && !slices.Contains(claim.Finalizers, names.FinalizerCloneSource) {
				w.violate("S2: volume %s is to be made from claim %s without the finalizer", request.GetName(), claim.Name)
			}
		}
	}
}

// copies notes that this process has called CreateVolume for a volume.
func (p *process) copies(volume string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.created[volume] = true
}

// releasing looks at a write to a source, S4: its finalizer stays as long as a claim waits for a volume
// from it that this process has called for. What it returns is called after the write.
func (p *process) releasing(o client.Object) (check func()) {
	ref, ok := sourceOf(o)
	if !ok || !p.world.work.processSet.copies || !p.isProtected(ref) {
		return func() {}
	}
	return func() {
		if p.isProtected(ref) {
			return
		}
		for _, claim := range apiserver.Objects(p.world.server, &corev1.PersistentVolumeClaim{}) {
			if source.Waits(claim) && source.Of(claim) == ref && p.hasCalledFor(claim) {
				p.world.violate("S4: %s loses its finalizer, and claim %s waits for a volume from it", ref, claim.Name)
			}
		}
	}
}

func sourceOf(o client.Object) (ref source.Ref, ok bool) {
	switch o.(type) {
	case *corev1.PersistentVolumeClaim:
		ref.Kind = source.KindClaim
	case *snapshotv1.VolumeSnapshot:
		ref.Group, ref.Kind = names.SnapshotGroup, source.KindSnapshot
	default:
		return ref, false
	}
	ref.Namespace, ref.Name = o.GetNamespace(), o.GetName()
	return ref, true
}

// isProtected reports whether the source has the finalizer on the API server.
func (p *process) isProtected(ref source.Ref) bool {
	var o client.Object = &corev1.PersistentVolumeClaim{}
	if ref.IsSnapshot() {
		o = &snapshotv1.VolumeSnapshot{}
	}
	err := p.world.server.Client().Get(p.world.ctx, ref.NamespacedName, o)
	return err == nil && source.IsProtected(o, ref)
}

func (p *process) hasCalledFor(claim *corev1.PersistentVolumeClaim) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.created["pvc-"+string(claim.UID)]
}
