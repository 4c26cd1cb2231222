package binding

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
)

type (
	pvc = corev1.PersistentVolumeClaim
	pv  = corev1.PersistentVolume
)

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// claim is "ns/c" with the uid "u". It requests 1Gi ReadWriteOnce, without a class ("" is explicit).
func claim(edits ...func(*pvc)) *pvc {
	c := &pvc{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(""),
			Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	return edited(c, edits)
}

// createdAt is a time, in seconds after the creation of volumes.
func createdAt(second int64) func(*pvc) {
	return func(c *pvc) {
		c.CreationTimestamp = metav1.NewTime(time.Time{}.Add(time.Duration(second) * time.Second))
	}
}

// aVolume is "v": it has 1Gi ReadWriteOnce, is served by a CSI driver, has the policy Delete and is
// available.
func aVolume(edits ...func(*pv)) *pv {
	v := &pv{
		ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "uid-v"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: storage("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	return edited(v, edits)
}

// boundClaim is a claim whose binding to the volume is complete.
func boundClaim(volume string, edits ...func(*pvc)) *pvc {
	return claim(append([]func(*pvc){namesVolume(volume), bindCompleted, statusBound}, edits...)...)
}

// boundVolume is a volume that is bound to the claim.
func boundVolume(edits ...func(*pv)) *pv {
	return aVolume(append([]func(*pv){claimRef("u"), volumeBound}, edits...)...)
}

func edited[T any](o *T, edits []func(*T)) *T {
	for _, edit := range edits {
		edit(o)
	}
	return o
}

func namesVolume(volume string) func(*pvc) { return func(c *pvc) { c.Spec.VolumeName = volume } }

func bindCompleted(c *pvc) { annotate(&c.ObjectMeta, names.AnnBindCompleted, "yes") }

func statusLost(c *pvc) { c.Status.Phase = corev1.ClaimLost }

func statusBound(c *pvc) {
	c.Status = corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, AccessModes: c.Spec.AccessModes, Capacity: storage("1Gi"),
	}
}

func className(name string) func(*pvc) { return func(c *pvc) { c.Spec.StorageClassName = &name } }

func noClassName(c *pvc) { c.Spec.StorageClassName = nil }

func claimAnnotation(key, value string) func(*pvc) {
	return func(c *pvc) { annotate(&c.ObjectMeta, key, value) }
}

// provisioner is the annotation that asks an external provisioner.
func provisioner(driver string) func(*pvc) {
	return claimAnnotation(names.AnnStorageProvisioner, driver)
}

func claimTerminating(c *pvc) { c.DeletionTimestamp = new(metav1.Unix(1, 0)) }

func claimRef(uid types.UID) func(*pv) {
	return func(v *pv) { v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: uid} }
}

func claimRefToOther(v *pv) {
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "other", UID: "u2"}
}

func phase(phase corev1.PersistentVolumePhase) func(*pv) {
	return func(v *pv) { v.Status.Phase = phase }
}

// The phases of volumes; that of a new one is Available.
var (
	volumePending  = phase(corev1.VolumePending)
	volumeBound    = phase(corev1.VolumeBound)
	volumeReleased = phase(corev1.VolumeReleased)
	volumeFailed   = phase(corev1.VolumeFailed)
)

// isKept is the policy of volumes that are there before their claims, nearly always.
var retained = reclaimPolicy(corev1.PersistentVolumeReclaimRetain)

func reclaimPolicy(reclaimPolicy corev1.PersistentVolumeReclaimPolicy) func(*pv) {
	return func(v *pv) { v.Spec.PersistentVolumeReclaimPolicy = reclaimPolicy }
}

func provisionedBy(driver string) func(*pv) { return volumeAnnotation(names.AnnProvisionedBy, driver) }

// reusableBy is the annotation that says which claim may have the volume after this one.
func reusableBy(which string) func(*pv) { return volumeAnnotation(names.AnnReuse, which) }

// boundByUs marks a volume that a binder chose, and may give to another claim (C3).
var boundByUs = volumeAnnotation(names.AnnBoundByController, "yes")

func volumeAnnotation(key, value string) func(*pv) {
	return func(v *pv) { annotate(&v.ObjectMeta, key, value) }
}

func named(name string) func(*pv) {
	return func(v *pv) { v.Name, v.UID = name, types.UID("uid-"+name) }
}

func capacity(size string) func(*pv) { return func(v *pv) { v.Spec.Capacity = storage(size) } }

func hostPath(v *pv) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}
}

func blockMode(v *pv) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }

func volumeTerminating(v *pv) { v.DeletionTimestamp = new(metav1.Unix(1, 0)) }

func volumeClass(name string) func(*pv) { return func(v *pv) { v.Spec.StorageClassName = name } }

func annotate(o *metav1.ObjectMeta, key, value string) {
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[key] = value
}

func class(name, provisioner string, edits ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	return edited(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
		VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	}, edits)
}

func waitsForPod(c *storagev1.StorageClass) {
	c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
}

func markedDefault(created int64) func(*storagev1.StorageClass) {
	return func(c *storagev1.StorageClass) {
		annotate(&c.ObjectMeta, names.AnnDefaultStorageClass, "true")
		c.CreationTimestamp = metav1.Unix(created, 0)
	}
}

// cluster is the snapshot of a claim and volumes, each in the place that its claimRef and the claim's
// volumeName give it.
func cluster(c *pvc, volumes ...*pv) Snapshot {
	s := Snapshot{Key: Key{Claim: types.NamespacedName{Namespace: "ns", Name: "c"}}, Claim: c}
	for _, v := range volumes {
		if ref := v.Spec.ClaimRef; ref != nil && ref.Name == "c" {
			s.Refs = append(s.Refs, v)
		}
		if c != nil && c.Spec.VolumeName == v.Name {
			s.Named = v
		}
	}
	return s
}

// alone is the snapshot of a volume without a claimRef.
func alone(v *pv) Snapshot { return Snapshot{Key: Key{Volume: v.Name}, Refs: []*pv{v}} }

// with returns the snapshot with more of the cluster in it.
func (s Snapshot) with(edits ...func(*Snapshot)) Snapshot { return *edited(&s, edits) }

// freeVolume is the best of the volumes that are free for any claim.
func freeVolume(v *pv) func(*Snapshot) { return func(s *Snapshot) { s.Offer = v } }

// storageClass is the class that the claim names.
func storageClass(c *storagev1.StorageClass) func(*Snapshot) {
	return func(s *Snapshot) { s.Class = c }
}

func defaultClass(c *storagev1.StorageClass) func(*Snapshot) {
	return func(s *Snapshot) { s.Default = c }
}

// pods use the claim and have no node.
func pods(names ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		for _, name := range names {
			s.Pods = append(s.Pods, Consumer{Pod: name})
		}
	}
}

func provisionerInProcess(s *Snapshot) { s.InProcess = true }

// volumesReadLive says that the volume comes from the API server, not from the cache.
func volumesReadLive(s *Snapshot) { s.VolumesAsked = true }

// claimReadLive says the same of the claim, or that it does not exist.
func claimReadLive(s *Snapshot) { s.ClaimAsked = true }

// sawDeletion says that the claim with this uid is deleted.
func sawDeletion(uid types.UID) func(*Snapshot) {
	return func(s *Snapshot) { s.Gone = map[types.UID]struct{}{uid: {}} }
}
