package sim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

func (a api) patch(o client.Object, p client.Patch) string {
	return outcome(a.Patch(a.t.Context(), o, p))
}

func (a api) patchStatus(o client.Object, p client.Patch) string {
	return outcome(a.Status().Patch(a.t.Context(), o, p))
}

var boundStatus = kube.BoundClaim{
	AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
	Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
}

func reservedFor(uid types.UID, annotations map[string]string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Annotations = annotations
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "other", UID: uid}
	}
}

// bindingRows are the writes of the binder: what they do, and what stops them.
var bindingRows = []struct {
	name string
	do   func(a api) string
	want string
}{
	{"the four writes of a binding", func(a api) string {
		pv, claim := a.volume("b1"), a.claim("b1")
		got := a.patch(pv, kube.TakeVolume(pv, claim, true)) + " " + a.patchStatus(pv, kube.PhaseOfOwned(pv, claim.UID, corev1.VolumeBound, "")) + " " +
			a.patch(claim, kube.NameVolume(claim, "b1", true)) + " " + a.patchStatus(claim, kube.BindStatus(claim, "b1", boundStatus))
		capacity := claim.Status.Capacity[corev1.ResourceStorage]
		return fmt.Sprint(got, " ", pv.Status.Phase, " ", claim.Status.Phase, " ", capacity.String(), " ", claim.Status.AccessModes, " ",
			pv.Spec.ClaimRef.UID == claim.UID, " ", pv.Annotations, claim.Annotations)
	}, "ok ok ok ok Bound Bound 1Gi [ReadWriteOnce] true map[pv.kubernetes.io/bound-by-controller:yes] map[pv.kubernetes.io/bind-completed:yes pv.kubernetes.io/bound-by-controller:yes]"},
	{"a volume that has changed is not taken", func(a api) string {
		pv, claim := a.volume("b2"), a.claim("b2")
		old := pv.DeepCopy()
		return a.patch(pv, kube.AddFinalizer(pv.UID, ours)) + " " + a.patch(pv, kube.TakeVolume(old, claim, true))
	}, "ok Conflict"},
	{"a volume of another claim gets no phase", func(a api) string {
		pv := a.volume("b3", reservedFor("u1", nil))
		return a.patchStatus(pv, kube.PhaseOfOwned(pv, "u2", corev1.VolumeReleased, ""))
	}, "Invalid"},
	{"nor one whose phase is another one by now", func(a api) string {
		pv := a.volume("b4", reservedFor("u1", nil))
		old := pv.DeepCopy()
		return a.patchStatus(pv, kube.PhaseOfOwned(pv, "u1", corev1.VolumeBound, "")) + " " + a.patchStatus(pv, kube.PhaseOfOwned(old, "u1", corev1.VolumeReleased, ""))
	}, "ok Invalid"},
	{"a finalizer that comes in between does not matter for that", func(a api) string {
		pv := a.volume("b5", reservedFor("u1", nil))
		old := pv.DeepCopy()
		return a.patch(pv, kube.AddFinalizer(pv.UID, ours)) + " " + a.patchStatus(pv, kube.PhaseOfOwned(old, "u1", corev1.VolumeFailed, "no")) + " " + pv.Status.Message
	}, "ok ok no"},
	{"it does for one that is then deleted", func(a api) string {
		pv := a.volume("b5d", reservedFor("u1", nil), func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		})
		old := pv.DeepCopy()
		return a.patch(pv, kube.AddFinalizer(pv.UID, ours)) + " " + a.patchStatus(pv, kube.PhaseUnchanged(old, corev1.VolumeReleased, "")) + " " +
			a.patchStatus(pv, kube.PhaseUnchanged(pv, corev1.VolumeReleased, "")) + " " + string(pv.Status.Phase)
	}, "ok Conflict ok Released"},
	{"a phase of a volume of which the cache has dropped parts", func(a api) string {
		pv := a.volume("b16", reservedFor("u1", map[string]string{names.AnnProvisionedBy: "d"}), withOurs)
		got := a.patchStatus(pv, kube.PhaseOfOwned(pv, "u1", corev1.VolumeBound, ""))
		trimmed, err := kube.TrimTo(kube.PairFields)(pv.DeepCopy())
		if err != nil {
			a.t.Fatal(err)
		}
		got += " " + a.patchStatus(pv, kube.PhaseOfOwned(trimmed.(*corev1.PersistentVolume), "u1", corev1.VolumeReleased, ""))
		return fmt.Sprint(got, " ", pv.Status.Phase, " ", pv.Spec.CSI.VolumeHandle, " ", pv.Annotations[names.AnnProvisionedBy], " ", a.finalizers(pv))
	}, "ok ok Released h d ours,pv-protection"},
	{"a volume is free only if nothing has changed", func(a api) string {
		pv := a.volume("b6")
		old := pv.DeepCopy()
		return a.patch(pv, kube.AddFinalizer(pv.UID, ours)) + " " + a.patchStatus(pv, kube.PhaseUnchanged(old, corev1.VolumeAvailable, "")) + " " + a.patchStatus(pv, kube.PhaseUnchanged(pv, corev1.VolumeAvailable, "")) + " " + string(pv.Status.Phase)
	}, "ok Conflict ok Available"},
	{"a claim gets its volume once", func(a api) string {
		claim := a.claim("b7")
		return a.patch(claim, kube.NameVolume(claim, "v", false)) + " " + a.patch(claim, kube.NameVolume(claim, "w", false)) + " " + a.patch(claim, kube.NameVolume(claim, "v", false))
	}, "ok Invalid ok"},
	{"the status of a claim with another volume, or another phase", func(a api) string {
		claim := a.claim("b8")
		old := claim.DeepCopy()
		return a.patch(claim, kube.NameVolume(claim, "v", false)) + " " + a.patchStatus(claim, kube.BindStatus(claim, "w", boundStatus)) + " " +
			a.patchStatus(claim, kube.BindStatus(claim, "v", boundStatus)) + " " + a.patchStatus(claim, kube.BindStatus(old, "v", boundStatus))
	}, "ok Invalid ok Invalid"},
	{"a status is cleared", func(a api) string {
		claim := a.claim("b9")
		got := a.patch(claim, kube.NameVolume(claim, "v", false)) + " " + a.patchStatus(claim, kube.BindStatus(claim, "v", boundStatus)) + " " + a.patchStatus(claim, kube.ClearStatus(claim, corev1.ClaimLost))
		return fmt.Sprint(got, " ", claim.Status.Phase, len(claim.Status.Capacity), len(claim.Status.AccessModes), claim.Spec.VolumeName)
	}, "ok ok ok Lost0 0v"},
	{"a binding of ours is undone", func(a api) string {
		pv := a.volume("b10", reservedFor("u1", map[string]string{names.AnnBoundByController: "yes"}))
		return a.patch(pv, kube.GiveVolumeBack(pv, true, types.NamespacedName{})) + fmt.Sprint(" ", pv.Spec.ClaimRef == nil, len(pv.Annotations))
	}, "ok true 0"},
	{"one of a user's is kept by name", func(a api) string {
		pv := a.volume("b11", reservedFor("u1", map[string]string{"mine": "yes"}))
		return a.patch(pv, kube.GiveVolumeBack(pv, false, types.NamespacedName{})) + fmt.Sprint(" ", pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID, pv.Annotations)
	}, "ok othermap[mine:yes]"},
	{"or goes to one of another", func(a api) string {
		pv := a.volume("b11m", reservedFor("u1", map[string]string{names.AnnBoundByController: "yes"}))
		got := a.patch(pv, kube.GiveVolumeBack(pv, false, types.NamespacedName{Namespace: "elsewhere", Name: "other"}))
		return got + fmt.Sprint(" ", pv.Spec.ClaimRef.Namespace, "/", pv.Spec.ClaimRef.Name, " ", pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.ResourceVersion, len(pv.Annotations))
	}, "ok elsewhere/other 0"},
	{"a class is given once", func(a api) string {
		claim := a.claim("b12", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil })
		return a.patch(claim, kube.NameClass(claim, "x")) + " " + a.patch(claim, kube.NameClass(claim, "y"))
	}, "ok Invalid"},
	{"a provisioner is asked under both names", func(a api) string {
		claim := a.claim("b13", func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{names.AnnMigratedTo: "d"} })
		return a.patch(claim, kube.NameProvisioner(claim, "d")) + fmt.Sprint(" ", len(claim.Annotations), claim.Annotations[names.AnnStorageProvisioner], claim.Annotations[names.AnnBetaStorageProvisioner])
	}, "ok 2dd"},
	{"migration is said, and the finalizer of the plugin goes", func(a api) string {
		pv := a.volume("b14", func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{names.FinalizerInTree} })
		got := a.patch(pv, kube.NameMigration(pv, "d", []string{names.FinalizerInTree})) + " " + pv.Annotations[names.AnnMigratedTo]
		return got + " " + a.finalizers(pv) + " " + a.patch(pv, kube.NameMigration(pv, "", nil)) + fmt.Sprint(" ", len(pv.Annotations))
	}, "ok d pv-protection ok 0"},
	{"a finalizer is dropped where nothing may have changed", func(a api) string {
		pv := a.volume("b15", withOurs)
		old := pv.DeepCopy()
		return a.patch(pv, kube.AddFinalizer(pv.UID, "x/y")) + " " + a.patch(old, kube.DropFinalizerUnchanged(old, ours)) + " " + a.patch(pv, kube.DropFinalizerUnchanged(pv, ours)) + " " + a.finalizers(pv)
	}, "ok Conflict ok x/y,pv-protection"},
}
