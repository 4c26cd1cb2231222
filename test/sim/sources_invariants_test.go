package sim

import (
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/source"
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
		if claim.DeletionTimestamp == nil && claim.Status.Phase != corev1.ClaimBound && !small && (ref.IsNone() || e.sourceExists(ref)) {
			e.violate("S3: claim %s has no volume, and its source exists", claim.Name)
		}
	}
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
	for _, vs := range apiserver.Objects(w.server, &snapshotv1.VolumeSnapshot{}) {
		if "handle-"+vs.Name == id && !slices.Contains(vs.Finalizers, names.FinalizerRestoreSource) {
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
